// Values as text: numbers alone, numbers of a column in one precision, long names, and tables as CSV.

import { element } from "./elements.js";

const DIGITS = 4; // of the largest number of a column
const FEWEST_DIGITS = 2; // of its smallest
const MOST_DECIMALS = 3; // of a column with numbers above 1
const LONGEST_DECIMALS = 6; // of any; what would have more has an exponent
const LARGEST = 12; // powers of ten, likewise
const MOST_MORE = 9; // digits that tell numbers apart

export const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
export const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
export const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const formats = new Map(); // by decimals: to make one takes long

// A number as it stands beside a curve: as in the list of runs (as_number of launch/reports/format.py), but whole numbers,
// which may be counts, without decimals.
export function written(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 1000) return whole.format(value);
  return size < 0.001 ? value.toExponential(1) : value.toFixed(size < 10 ? 3 : 1);
}

// A function that writes any of the numbers of a column, all with as many decimals. The largest has four digits, the
// smallest two where three decimals suffice. If they are to be told apart, numbers that differ have different texts, and 0
// is just 0.
export function column_form(numbers, apart = false) {
  const sizes = numbers.filter(Boolean).map((number) => Math.floor(Math.log10(Math.abs(number))));
  if (!sizes.length) return whole.format;
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const of_largest = DIGITS - 1 - most;
  const wanted = Math.max(of_largest, FEWEST_DIGITS - 1 - least, 0);
  const fixed = (number, digits) => number.toFixed(digits);
  const decimals = fewest(numbers, Math.min(20, apart ? wanted : Math.min(wanted, Math.max(MOST_DECIMALS, of_largest))), fixed, apart);
  if (decimals <= LONGEST_DECIMALS && most < LARGEST) return (number) => (apart && number === 0 ? "0" : with_decimals(decimals).format(number));
  const exponential = (number, digits) => number.toExponential(digits);
  const digits = fewest(numbers, DIGITS - 1, exponential, apart);
  return (number) => (Number.isInteger(number) && Math.abs(number) < 10 ** LARGEST ? whole.format(number) : exponential(number, digits));
}

// The numbers of a column as texts; null is a number that is not known.
export function column_texts(numbers) {
  const form = column_form(numbers.filter((number) => number !== null));
  return numbers.map((number) => (number === null ? "–" : form(number)));
}

// The fewest digits that write numbers as the given ones do; more if numbers that differ are to have different texts.
function fewest(numbers, digits, write, apart) {
  const texts = () => new Set(numbers.map((number) => write(number, digits))).size;
  const all = new Set(numbers).size;
  for (let more = 0; apart && more < MOST_MORE && texts() < all; more++) digits++;
  while (digits && numbers.every((number) => Number(write(number, digits)) === Number(write(number, digits - 1)))) digits--;
  return digits;
}

function with_decimals(count) {
  if (!formats.has(count)) formats.set(count, new Intl.NumberFormat("en", { minimumFractionDigits: count, maximumFractionDigits: count, signDisplay: "negative" }));
  return formats.get(count);
}

// The same for shares, in percent.
export function percent_form(shares) {
  const form = column_form(shares.map((share) => 100 * share));
  return (share) => `${form(100 * share)}%`;
}

// Names ----------------------------------------------------------------------------------------------------------------

const LONGEST = 44; // letters of a name in a table
const LONGEST_PLACE = 24;

// A long name with its middle left out: names of runs often differ at their end.
export function shortened(name, most = LONGEST) {
  const letters = [...name];
  return letters.length > most ? `${letters.slice(0, most - 11).join("")}…${letters.slice(-10).join("")}` : name;
}

// What tells a run from others of its name, or nothing where it is the only one.
export function placed({ place }) {
  return place ? element("span", { class: "place soft", title: place }, shortened(place, LONGEST_PLACE)) : null;
}

// CSV ------------------------------------------------------------------------------------------------------------------

const FORMULA = /(^|[;\t\r\n])(?=\s*[=+\-@＝＋－＠])/g; // a spreadsheet would compute it; some take ; or a tab for the end of a cell
const KEPT_MS = 60_000; // a browser may ask before it saves a file

// A link that saves a table as CSV; its rows are made when it is followed.
export function csv_link(words, file, rows) {
  const follow = ({ currentTarget }) => {
    const url = URL.createObjectURL(new Blob([csv(rows())], { type: "text/csv;charset=utf-8" }));
    setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
    currentTarget.href = url;
  };
  return element("a", { href: "#", download: file, click: follow }, words);
}

// Rows as CSV (RFC 4180). Numbers are as exact as they are known; a text that is a formula to a spreadsheet gets a '.
function csv(rows) {
  return rows.map((row) => `${row.map(csv_cell).join(",")}\r\n`).join("");
}

function csv_cell(value) {
  if (typeof value === "number") return String(value);
  const text = String(value ?? "").replace(FORMULA, "$1'");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
