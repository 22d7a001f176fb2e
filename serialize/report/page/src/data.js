// The data of a page as its writer put them there: a JSON head and blocks of columns (docs/internals/REPORT_DATA.md).

const SIZES = { u8: 1, u16: 2, u32: 4, f32: 4, f64: 8 };
const ARRAYS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array };

export function readHead() {
  const element = document.getElementById("head");
  const head = JSON.parse(element.textContent);
  element.remove();
  if (head.format !== "torchtrace-report") throw new Error("this page holds no report");
  if (head.version > 1) throw new Error("this page's data are of a newer version than its script");
  return head;
}

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Numbers are stored as planes: the lowest byte of each, then the next byte of each.
function joinPlanes(bytes, from, count, size) {
  const out = new Uint8Array(count * size);
  for (let plane = 0; plane < size; ++plane) {
    const base = from + plane * count;
    for (let i = 0, to = plane; i < count; ++i, to += size) out[to] = bytes[base + i];
  }
  return out.buffer;
}

function readNumbers(bytes, from, count, type, delta, like) {
  const size = SIZES[type];
  if (!size) throw new Error("a column has an unknown type: " + type);
  const values = size === 1 ? bytes.slice(from, from + count) : new ARRAYS[type](joinPlanes(bytes, from, count, size));
  if (like) {
    const bits = new Uint8Array(values.buffer), others = new Uint8Array(like.buffer, like.byteOffset);
    for (let i = 0; i < bits.length; ++i) bits[i] ^= others[i];
  }
  if (delta) for (let i = 1; i < count; ++i) values[i] += values[i - 1];
  return values;
}

// Strings in one array of UTF-8. They are decoded when they are shown.
export class Texts {
  // A text is the first `shared` bytes of the one before, and `lengths` bytes of its own.
  constructor(shared, lengths, own) {
    this.count = lengths.length;
    this.ends = new Uint32Array(this.count);
    let all = 0;
    for (let i = 0; i < this.count; ++i) this.ends[i] = all += shared[i] + lengths[i];
    const bytes = this.bytes = new Uint8Array(all);
    for (let i = 0, from = 0, to = 0, before = 0; i < this.count; ++i) {
      const begin = to;
      for (let k = 0; k < shared[i]; ++k) bytes[to++] = bytes[before + k];
      for (let k = 0; k < lengths[i]; ++k) bytes[to++] = own[from++];
      before = begin;
    }
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  }
  begin(i) {
    return i > 0 ? this.ends[i - 1] : 0;
  }
  at(i) {
    return this.decoder.decode(this.bytes.subarray(this.begin(i), this.ends[i]));
  }
  // The texts from `first` to `last` as one, if all of it is ASCII: then its places are those of bytes.
  plain(first, last) {
    const all = this.decoder.decode(this.bytes.subarray(this.begin(first), this.ends[last - 1]));
    return all.length === this.ends[last - 1] - this.begin(first) ? all : null;
  }
  // Marks in `found` the texts from `first` to `last` that hold `needle`, in any case.
  markContaining(needle, found, first, last) {
    const base = this.begin(first), all = this.plain(first, last)?.toLowerCase();
    if (!all) {
      for (let i = first; i < last; ++i) if (this.at(i).toLowerCase().includes(needle)) found[i] = 1;
      return;
    }
    for (let i = first, at = all.indexOf(needle); at >= 0; at = all.indexOf(needle, at)) {
      while (this.ends[i] - base <= at) ++i;
      if (at + needle.length > this.ends[i] - base) {  // it goes over the end of this text
        ++at;
        continue;
      }
      found[i] = 1;
      at = this.ends[i] - base;
    }
  }
  markMatching(pattern, found, first, last) {
    const base = this.begin(first), all = this.plain(first, last);
    for (let i = first; i < last; ++i) {
      if (pattern.test(all ? all.slice(this.begin(i) - base, this.ends[i] - base) : this.at(i))) found[i] = 1;
    }
  }
}

// A block's columns by name. Each block is decoded once, when a view first needs it.
const blocks = new Map();
export function readBlock(head, name) {
  if (!blocks.has(name)) blocks.set(name, decodeBlock(head, name));
  return blocks.get(name);
}

async function decodeBlock(head, name) {
  const columns = head.blocks[name], element = document.getElementById("block-" + name);
  if (!columns || !element) throw new Error("the page lacks the block " + name);
  const packed = bytesOfBase64(element.textContent);
  element.remove();
  const bytes = await inflate(packed), result = {};
  let at = 0;
  for (const { name: column, type, count, bytes: length, delta, xor } of columns) {
    if (type === "text") {
      const shared = bytes.subarray(at, at + count), lengths = readNumbers(bytes, at + count, count, "u32");
      at += 5 * count;
      result[column] = new Texts(shared, lengths, bytes.subarray(at, at + length));
      at += length;
    } else {
      result[column] = readNumbers(bytes, at, count, type, delta, result[xor]);
      at += SIZES[type] * count;
    }
  }
  if (at !== bytes.length) throw new Error("the block " + name + " has another length than its columns");
  return result;
}

// A table: its texts, measures and facets.
export class Table {
  constructor(head, name, columns) {
    this.name = name;
    this.spec = head.tables[name];
    this.rows = this.spec.rows;
    this.columns = columns;
    this.texts = columns.text;
    this.facets = (this.spec.facets || []).filter(facet => columns[facet]).map(facet => {
      const { title, values, sets } = head.facets[facet];
      return { name: facet, title, values, sets, column: columns[facet] };
    });
  }
  has(name) {
    return name in this.columns;
  }
  // The amount of a measure; of the second trace with `b_` before its name.
  value(name, i) {
    return this.columns[name][i];
  }
  sum(name, rows) {
    const column = this.columns[name];
    let sum = 0;
    for (let i = 0; i < rows.length; ++i) {
      const value = column[rows[i]];
      if (value === value) sum += value;
    }
    return sum;
  }
  facetValues(facet, i) {
    const at = facet.column[i];
    return facet.sets ? facet.sets[at] : [at];
  }
}

export async function readTable(head, name) {
  return new Table(head, name, await readBlock(head, head.tables[name].block));
}

// The numbers of rows in the order of `keys`; those without a number come last.
const asFloat = new Float32Array(1), asBits = new Uint32Array(asFloat.buffer);
export function sortRows(rows, keyOf, descending) {
  const count = rows.length, packed = new Float64Array(count);
  for (let at = 0; at < count; ++at) {
    const key = keyOf(rows[at]);
    let bits = 0xffffffff;
    if (key === key) {
      asFloat[0] = key;
      bits = asBits[0];
      bits = bits & 0x80000000 ? ~bits >>> 0 : (bits | 0x80000000) >>> 0;
      if (descending) bits = 0xfffffffe - Math.min(bits, 0xfffffffe);
    }
    // 32 bits of the key and 21 of the place fit a double, and an array of doubles is sorted natively.
    packed[at] = bits * 0x200000 + at;
  }
  packed.sort();
  const sorted = new Uint32Array(count);
  for (let at = 0; at < count; ++at) sorted[at] = rows[packed[at] % 0x200000];
  return sorted;
}
export const MOST_ROWS = 0x200000;
