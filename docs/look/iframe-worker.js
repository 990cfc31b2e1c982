// A browser starts no worker for a page that it opened from a disk. There, the search runs in a
// hidden frame instead, which has what a worker has: postMessage, importScripts, messages.
(() => {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.give(new MessageEvent("message", { data }));
      inside.importScripts = (...names) => load(inside.document, names);
      inside.addEventListener("error", (event) => this.give(new ErrorEvent("error", event)));
      this.ready = load(inside.document, [url]);
    }

    give(event) {
      this.dispatchEvent(event);
      this[`on${event.type}`]?.(event);
    }

    postMessage(data) {
      this.ready.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })),
      );
    }

    terminate() {
      this.frame.remove();
    }
  }

  async function load(document, names) {
    for (const name of names) {
      await new Promise((loaded, failed) => {
        const script = document.createElement("script");
        script.src = new URL(name, window.location.href);
        script.onload = loaded;
        script.onerror = () => failed(new Error(`${name} could not be loaded`));
        document.body.append(script);
      });
    }
  }

  window.Worker = FrameWorker;
})();
