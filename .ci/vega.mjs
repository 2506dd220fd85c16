// Opens the pages that .ci/vega made in its folder $1, without network. The Node packages are in
// the folder NODE_PACKAGES.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const require = createRequire(process.env.NODE_PACKAGES);
const { chromium } = require("playwright-core");
const out = process.argv[2];
const failures = [];
const check = (holds, what) => {
  if (!holds) failures.push(what);
  console.log(`${holds ? "ok    " : "FAILED"} ${what}`);
};

const still = fs.readFileSync(path.join(out, "still/figures.html"), "utf8");
check(!still.includes("<script"), "a page without the option has no script");
const address = `file://${path.join(out, "interactive/figures.html")}`;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox"],
});
async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1000, height: 1400 }, ...options });
  await context.setOffline(true);
  const page = await context.newPage();
  page.complaints = [];
  page.requests = [];
  page.on("console", (said) => {
    if (["error", "warning"].includes(said.type())) page.complaints.push(said.text());
  });
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("request", (request) => {
    const url = request.url();
    if (url !== address && !/^(data|blob):/.test(url)) page.requests.push(url);
  });
  await page.goto(address);
  return page;
}

const page = await open({});
const count = await page.locator(".vega > script").count();
const drawn = page.locator(".vega .live svg.marks");
await drawn.nth(count - 1).waitFor({ timeout: 15_000 }).catch(() => {});
check(count === 5 && (await drawn.count()) === count, `${await drawn.count()} of ${count} figures are drawn`);
const stills = await page.locator(".vega > .still:visible").count();
check(stills === 0, "the drawings are hidden where Vega draws");
await page.screenshot({ path: path.join(out, "light.png"), fullPage: true });

const first = drawn.first();
const centre = async (mark) => {
  await mark.scrollIntoViewIfNeeded();
  const box = await mark.boundingBox();
  return [box.x + box.width / 2, box.y + box.height / 2];
};

let tip = "";
for (const point of (await first.locator(".mark-symbol.role-mark path").all()).slice(0, 12)) {
  await page.mouse.move(...(await centre(point)));
  await page.waitForTimeout(100);
  const tooltip = page.locator("#vg-tooltip-element.visible");
  tip = (await tooltip.count()) ? await tooltip.innerText() : "";
  if (/\d/.test(tip)) break;
}
check(/epsilon/i.test(tip) && /\d/.test(tip), `a tooltip has values: ${JSON.stringify(tip)}`);
await page.screenshot({ path: path.join(out, "tooltip.png") });

const range = "input[type=range]";
const withSlider = page.locator(".vega").filter({ has: page.locator(range) });
const sliders = await withSlider.count();
check(sliders === 3, `${sliders} figures have a slider`);
for (let i = 0; i < sliders; i++) {
  const slider = withSlider.nth(i).locator(range).first();
  const figure = withSlider.nth(i).locator(".live svg.marks");
  const before = await figure.innerHTML();
  await slider.focus();
  for (let step = 0; step < 4; step++) await page.keyboard.press("ArrowRight");
  await page.waitForTimeout(300);
  check((await figure.innerHTML()) !== before, `slider ${i + 1} changes its picture`);
}
await page.screenshot({ path: path.join(out, "sliders.png"), fullPage: true });

const faded = () =>
  first.evaluate((svg) => {
    const lines = [...svg.querySelectorAll(".mark-line path")];
    return lines.filter((line) => Number(line.getAttribute("opacity") ?? 1) < 0.2).length;
  });
const fadedBefore = await faded();
await page.mouse.click(...(await centre(first.locator(".role-legend-symbol path").first())));
await page.waitForTimeout(300);
check(fadedBefore === 0 && (await faded()) > 0, "a click on the legend fades the other series");
await page.screenshot({ path: path.join(out, "legend.png") });
check(page.requests.length === 0, ["no request leaves the page", ...page.requests].join(": "));
check(page.complaints.length === 0, ["the console is silent", ...page.complaints].join(": "));
// In a task of its own: what the debugger calls directly is exempt from the policy.
const evaluates = await page.evaluate(
  () =>
    new Promise((done) => {
      setTimeout(() => {
        try {
          done(new Function("return true")());
        } catch {
          done(false);
        }
      });
    }),
);
check(!evaluates, "the page's policy refuses code from text");
const runs = await page.evaluate(() => {
  const script = document.createElement("script");
  script.textContent = "window.foreign = true";
  document.body.append(script);
  return window.foreign === true;
});
check(!runs, "the page's policy refuses other scripts");

// The wheel belongs to the page; with Ctrl or Cmd it zooms.
const low = await open({ viewport: { width: 1000, height: 700 } });
const chart = low.locator(".vega .live svg.marks").first();
await chart.waitFor({ timeout: 60_000 });
const labels = async () => (await chart.locator(".role-axis-label text").allTextContents()).sort().join(" ");
const scrolled = () => low.evaluate(() => window.scrollY);
const until = async (holds) => {
  for (let i = 0; i < 150; i++) {
    if (await holds()) return true;
    await low.waitForTimeout(100);
  }
  return false;
};
await chart.scrollIntoViewIfNeeded();
const [whole, top] = [await labels(), await scrolled()];
const overTheChart = async () => {
  await low.evaluate((top) => window.scrollTo({ top, behavior: "instant" }), top);
  await until(async () => (await scrolled()) === top);
  await low.mouse.move(...(await centre(chart)));
};
check(await chart.getByText("double-click to reset").isVisible(), "a chart says how to zoom and reset");
await overTheChart();
await low.mouse.wheel(0, 120);
const goesOn = await until(async () => (await scrolled()) > top);
check(goesOn && (await labels()) === whole, "the wheel over a chart scrolls the page and does not zoom");
for (const key of ["Control", "Meta"]) {
  await overTheChart();
  await low.keyboard.down(key);
  await low.mouse.wheel(0, -240);
  const zoomed = await until(async () => (await labels()) !== whole);
  await low.keyboard.up(key);
  check(zoomed && (await scrolled()) === top, `${key} with the wheel zooms and does not scroll`);
  await low.screenshot({ path: path.join(out, "zoomed.png") });
  await low.mouse.dblclick(...(await centre(chart)));
  check(await until(async () => (await labels()) === whole), "a double click shows the whole chart again");
}
await overTheChart();
const [x, y] = await centre(chart);
await low.mouse.down();
await low.mouse.move(x - 120, y, { steps: 6 });
await low.mouse.up();
check(await until(async () => (await labels()) !== whole), "dragging moves what the chart shows");
await low.mouse.dblclick(x, y);
check(await until(async () => (await labels()) === whole), "a double click resets a moved chart");
await low.screenshot({ path: path.join(out, "reset.png") });
check(low.complaints.length === 0, ["zooming is silent", ...low.complaints].join(": "));

const dark = await open({ colorScheme: "dark" });
await dark.waitForTimeout(1500);
await dark.screenshot({ path: path.join(out, "dark.png"), fullPage: true });
const off = await open({ javaScriptEnabled: false });
check(await off.locator(".vega figure svg").first().isVisible(), "without scripts the drawings are seen");
await browser.close();
if (failures.length) {
  console.log(`${failures.length} checks failed`);
  process.exit(1);
}
