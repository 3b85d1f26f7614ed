// The playhead follows the sound; a click on the timeline plays from there.
(() => {
  const audio = document.getElementById("audio");
  const drawing = document.getElementById("timeline-drawing");
  const head = document.getElementById("playhead");
  const pixels = Number(drawing.dataset.pixels), offset = Number(audio.dataset.offset);
  const show = () => {
    const x = (audio.currentTime + offset) * pixels;
    head.setAttribute("x1", x);
    head.setAttribute("x2", x);
    head.setAttribute("visibility", "visible");
    const view = drawing.parentElement;
    if (!audio.paused && (x < view.scrollLeft || x > view.scrollLeft + view.clientWidth - 40)) view.scrollLeft = x - 60;
    if (!audio.paused) requestAnimationFrame(show);
  };
  audio.addEventListener("play", show);
  audio.addEventListener("seeked", show);
  drawing.addEventListener("click", (event) => {
    if (event.target.closest("a")) return;
    audio.currentTime = Math.max(0, (event.clientX - drawing.getBoundingClientRect().left) / pixels - offset);
    audio.play();
  });
})();
