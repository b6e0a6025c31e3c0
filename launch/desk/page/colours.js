// Colours of groups of runs. Each has a contrast of at least 3 to the paper on which it is drawn.

const LIGHT = ["#0072B2", "#D55E00", "#008A63", "#B8508F", "#A87400", "#2A86BC", "#1C2126"];
const DARK = ["#4BA3DD", "#E8762C", "#2DB78B", "#D98AB7", "#E6A21A", "#7CC8F2", "#E6E8EA"];
const DASHES = [undefined, [8, 4], [2, 3], [8, 3, 2, 3]]; // of lines, for more groups than colours
const dark_wanted = matchMedia("(prefers-color-scheme: dark)");

export function is_dark() {
  return (document.documentElement.dataset.theme ?? (dark_wanted.matches ? "dark" : "light")) === "dark";
}

// The colour and the dashes of the group with this number.
export function look_of(number) {
  const colours = is_dark() ? DARK : LIGHT;
  return { colour: colours[number % colours.length], dash: DASHES[Math.floor(number / colours.length) % DASHES.length] };
}
