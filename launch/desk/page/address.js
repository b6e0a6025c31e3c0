// What the page shows is in its address, so that a bookmark, a reload and the back button keep it.

const CHOICES = ["run", "filter", "smooth", "log", "sort", "processes"];
const CHOICES_OF_SEVERAL = ["metric", "picked", "column"];

// The choices in the address: texts, and arrays of texts; what is not given is empty.
export function chosen() {
  const hash = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries([
    ...CHOICES.map((name) => [name, hash.get(name) ?? ""]),
    ...CHOICES_OF_SEVERAL.map((name) => [name, hash.getAll(name).filter(Boolean)]),
  ]);
}

// The address with some choices changed.
export function address(change) {
  const wanted = Object.entries({ ...chosen(), ...change });
  return `#${new URLSearchParams(wanted.flatMap(([name, value]) => [value].flat().filter(Boolean).map((one) => [name, one])))}`;
}

// Change the address without a step back to the earlier one, as for a filter that is being typed.
export function rewrite(change) {
  history.replaceState(null, "", address(change));
}
