"""The command line: run or profile a script written for MXNet, and the demo."""
