// Colours of groups of runs, on light and on dark paper; the server sends both lists.

const DASHES = [undefined, [8, 4], [2, 3], [8, 3, 2, 3], [14, 3], [3, 7], [8, 2, 2, 2, 2, 2]]; // of lines, for more groups than colours
const dark_wanted = matchMedia("(prefers-color-scheme: dark)");

export function is_dark() {
  return (document.documentElement.dataset.theme ?? (dark_wanted.matches ? "dark" : "light")) === "dark";
}

let palettes = { light: ["#000000"], dark: ["#ffffff"] };

export function use_colours(given) {
  palettes = given;
}

// The colour and the dashes of the group with this number.
export function look_of(number) {
  const colours = palettes[is_dark() ? "dark" : "light"];
  return { colour: colours[number % colours.length], dash: DASHES[Math.floor(number / colours.length) % DASHES.length] };
}
