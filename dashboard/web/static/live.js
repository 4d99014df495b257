// Tells the reader that a block on which this page rests was replaced. All else on the page works without this script.
(() => {
  const { watch: newest } = document.body.dataset, AGAIN_MS = 60000;
  let stream = null, isOver = false;

  function stop() {
    stream?.close();
    stream = null;
  }

  function end() {
    isOver = true;
    stop();
  }

  function tell() {
    end();
    document.getElementById("replaced").append(document.getElementById("replaced-words").content.cloneNode(true));
    document.title = `Rolled back: ${document.title}`;
  }

  // Browsers open few connections to one server, so a hidden page closes its stream.
  function watch() {
    if (isOver || stream || document.hidden) return;
    stream = new EventSource(`/api/v1/events?only=reorg&after=${newest}`);
    stream.addEventListener("reorg", tell);
    stream.addEventListener("final", end);
    stream.onerror = () => {
      // The browser connects again by itself unless the stream is closed.
      if (stream?.readyState !== EventSource.CLOSED) return;
      stop();
      setTimeout(watch, AGAIN_MS);
    };
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : watch()));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", watch);
  watch();
})();
