"""Products of small integers: matrix products and convolutions of int8 and uint8, exact in int32."""
