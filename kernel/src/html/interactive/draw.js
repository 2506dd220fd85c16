
"use strict";
// Draws the interactive figures. The drawings stay until then, and where that fails.
(() => {
  const nothing = () => Promise.reject(new Error("this page loads nothing"));
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    // Interprets expressions, so that the page may forbid the compilation of code.
    ast: true,
    loader: { options: {}, load: nothing, sanitize: nothing, http: nothing, file: nothing },
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: "figure",
  };
  const draw = async (script) => {
    const still = script.previousElementSibling;
    const live = document.createElement("div");
    live.className = "live";
    live.hidden = true;
    script.after(live);
    try {
      await vegaEmbed(live, JSON.parse(script.textContent), options);
      still.hidden = true;
      live.hidden = false;
    } catch (error) {
      live.remove();
      console.warn("a figure stays as it is:", error.message);
    }
  };
  document.querySelectorAll('.vega > script[type="application/json"]').forEach(draw);
})();
