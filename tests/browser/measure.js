// Measures the page in the frame, and writes what is wrong with it into the document.
const LEAST_TEXT_PX = 11;
const LEAST_CONTRAST = 4.5;

function parts(color) {
  const numbers = color.match(/[\d.]+/g).map(Number);
  return { rgb: numbers.slice(0, 3), alpha: numbers.length > 3 ? numbers[3] : 1 };
}

// Relative luminance, WCAG 2.1.
function luminance(rgb) {
  const linear = rgb.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function background(view, element) {
  const plot = element.closest("svg");
  if (plot) return parts(view.getComputedStyle(plot.querySelector(".paper")).fill).rgb;
  for (let at = element; at; at = at.parentElement) {
    const color = parts(view.getComputedStyle(at).backgroundColor);
    if (color.alpha > 0) return color.rgb;
  }
  return [255, 255, 255];
}

function measure(frame) {
  const [view, page] = [frame.contentWindow, frame.contentDocument];
  const problems = new Set();
  const root = page.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    problems.add(`scrolls sideways: ${root.scrollWidth} of ${root.clientWidth}`);
  }
  let texts = 0;
  for (const element of page.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const box = element.getBoundingClientRect();
    if (!own || element.closest("title, style") || box.width === 0) continue;
    texts += 1;
    const style = view.getComputedStyle(element);
    const plot = element.closest("svg");
    const outer = plot ? plot.getBoundingClientRect() : null;
    const scale = plot ? outer.width / plot.viewBox.baseVal.width : 1;
    const size = parseFloat(style.fontSize) * scale;
    const what = `${element.tagName}.${element.getAttribute("class")}`;
    const words = element.textContent.trim().slice(0, 40);
    if (size < LEAST_TEXT_PX - 0.01) problems.add(`${size.toFixed(1)} px: ${what}`);
    if (outer && (box.left < outer.left - 1 || box.right > outer.right + 1)) {
      problems.add(`beyond its plot: ${what} ${words}`);
    }
    if (!plot && box.right > root.clientWidth + 1) problems.add(`beyond the page: ${what} ${words}`);
    const color = parts(plot ? style.fill : style.color).rgb;
    const ratio = contrast(color, background(view, element));
    if (ratio < LEAST_CONTRAST) problems.add(`contrast ${ratio.toFixed(1)}: ${what}`);
  }
  const dark = view.matchMedia("(prefers-color-scheme: dark)").matches;
  return [`texts: ${texts}`, `dark: ${dark}`, ...[...problems].map((text) => `problem: ${text}`)];
}

const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {
  const lines = measure(frame);
  frame.remove();
  document.querySelector("pre").textContent = lines.join("\n");
});
