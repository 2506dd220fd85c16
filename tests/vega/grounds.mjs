// Measures drawings in a browser: `node grounds.mjs MODULES DIR`.
//
// Every DIR/NAME.svg (the library's drawing) and DIR/NAME.vega.svg (Vega's) is opaque, so that it
// looks the same on light and dark grounds, is not blank, and all its labels are inside. The labels
// of the library's drawings do not overlap. MODULES is a folder with the npm package
// playwright-core, CHROMIUM the browser.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [modules, folder] = process.argv.slice(2);
const require = createRequire(resolve(modules, "package.json"));
const { chromium } = require("playwright-core");
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox"],
});
const page = await browser.newPage();

/** Runs in the browser: the problems of one drawing. */
async function measure({ svg, strict }) {
  const found = [];
  document.body.innerHTML = svg;
  const root = document.querySelector("svg");
  const frame = root.getBoundingClientRect();
  const labels = [...root.querySelectorAll("text")]
    .filter((text) => text.textContent.trim() && Number(text.getAttribute("opacity") ?? 1) > 0)
    .map((text) => ({ text: text.textContent.trim(), box: text.getBoundingClientRect() }))
    .filter(({ box }) => box.width > 0);
  // A browser without the font of the drawing sets text up to a few percent wider.
  const slack = 3;
  for (const { text, box } of labels) {
    const outside =
      box.left < frame.left - slack || box.right > frame.right + slack ||
      box.top < frame.top - slack || box.bottom > frame.bottom + slack;
    if (outside) found.push(`the label "${text}" leaves the picture`);
  }
  // The box of a text is as high as its line; letters fill about the middle half.
  const core = ({ left, right, top, bottom, height }) => ({
    left: left + 1, right: right - 1, top: top + 0.25 * height, bottom: bottom - 0.25 * height,
  });
  if (strict) {
    for (let i = 0; i < labels.length; i++) {
      for (let j = 0; j < i; j++) {
        const [a, b] = [core(labels[i].box), core(labels[j].box)];
        const overlap =
          a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        if (overlap) found.push(`the labels "${labels[j].text}" and "${labels[i].text}" overlap`);
      }
    }
  }
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await picture.decode();
  const [width, height] = [Math.ceil(frame.width), Math.ceil(frame.height)];
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0, width, height);
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  const colours = new Map();
  for (const pixel of pixels) colours.set(pixel, (colours.get(pixel) ?? 0) + 1);
  const clear = [...colours].filter(([pixel]) => pixel >>> 24 < 255);
  // The last row and column may be a fraction of a pixel.
  const seen = clear.reduce((sum, [, count]) => sum + count, 0);
  if (seen > width + height) found.push(`${seen} of ${pixels.length} pixels show the ground`);
  const card = Math.max(...colours.values());
  if (colours.size < 8 || card > 0.995 * pixels.length) found.push("the drawing is blank");
  return { found, labels: labels.length };
}

let failed = 0;
const check = async (name, svg, strict) => {
  const { found, labels } = await page.evaluate(measure, { svg, strict });
  for (const problem of new Set(found)) console.log(`${name}: ${problem}`);
  if (labels < 2) console.log(`${name}: ${labels} labels`);
  failed += found.length > 0 || labels < 2;
};
const names = readdirSync(folder).filter((file) => file.endsWith(".svg"));
for (const name of names) {
  await check(name, readFileSync(resolve(folder, name), "utf8"), !name.endsWith(".vega.svg"));
}

// The check finds what it is for.
const bad = (body) =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100">${body}</svg>`;
const card = '<rect width="200" height="100" fill="#ffffff"/>';
const bars = [..."123456789"].map((n) => `<rect x="${n}0" y="60" width="9" height="30" fill="#${n}0a"/>`);
const text = (x, y, words) => `<text x="${x}" y="${y}" font-size="12">${words}</text>`;
const wrong = [
  ["ground", bad(bars.join("") + text(10, 20, "one"))],
  ["blank", bad(card)],
  ["leaves", bad(card + bars.join("") + text(190, 20, "far outside"))],
  ["overlap", bad(card + bars.join("") + text(10, 20, "one word") + text(20, 22, "another"))],
];
for (const [word, svg] of wrong) {
  const { found } = await page.evaluate(measure, { svg, strict: true });
  if (!found.some((problem) => problem.includes(word))) {
    console.log(`a drawing that is wrong on purpose passes: ${word}`);
    failed += 1;
  }
}
await browser.close();
console.log(`${names.length} drawings measured, ${failed} with problems`);
process.exit(failed || !names.length ? 1 : 0);
