// Browsers start no workers for pages that are opened from a disk. The search of the site needs one, so here its script
// runs in a hidden frame. Pages from a server keep the browser's own workers.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      this.waiting = [];
      this.send = message => this.waiting.push(message);
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...addresses) => Promise.all(addresses.map(one => this.load(inside, one)));
      this.load(inside, address).then(() => {
        this.send = data => inside.dispatchEvent(new MessageEvent("message", { data }));
        this.waiting.forEach(this.send);
      });
    }

    load(inside, address) {
      return new Promise((loaded, failed) => {
        const script = inside.document.createElement("script");
        script.src = new URL(address, location);
        script.onload = loaded;
        script.onerror = failed;
        inside.document.body.appendChild(script);
      });
    }

    postMessage(message) { this.send(message); }
  };
}
