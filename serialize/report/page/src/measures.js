// What columns of numbers mean: titles, units, and which of them add up.

import { amount, bytes, count, number, time } from "./text.js";

const flops = value => amount(value, "");
// `share`: rows add up to a total, of which a row has a part. `first`: the order in which columns find room.
export const MEASURES = {
  calls: { title: "calls", format: count, help: "how many calls", share: true, first: 2 },
  configs: { title: "configs", format: count, help: "different calls: an API with its arguments", first: 6 },
  apis: { title: "APIs", format: count, help: "different APIs", first: 9 },
  wall_ns: { title: "wall", format: time, help: "from the end of the step before to its end", share: true, first: 1 },
  time_ns: { title: "time", format: time, help: "from entry to end; calls inside another one of the same row count once", first: 3 },
  self_ns: { title: "self", format: time, help: "time without the recorded calls inside; it adds up over rows", share: true, first: 1 },
  forward_ns: { title: "forward", format: time, help: "self time in the forward pass, without inner modules", first: 4 },
  backward_ns: { title: "backward", format: time, help: "self time in the backward pass, without inner modules", first: 4 },
  device_ns: { title: "device", format: time, help: "time of what the calls launched on devices", share: true, first: 2 },
  flops: { title: "FLOP", format: flops, help: "two for each multiplication and addition in products, convolutions and attention", first: 5 },
  bytes: { title: "moved", format: bytes, help: "bytes of the tensors read and written", first: 7 },
  allocated_bytes: { title: "allocated", format: bytes, help: "bytes that the calls and all inside them allocated", first: 5 },
  peak_bytes: { title: "peak", format: bytes, help: "the most that one call had above its start", first: 8 },
  held_bytes: { title: "held", format: bytes, help: "allocated and never freed", first: 8 },
  memory_bytes: { title: "bytes", format: bytes, help: "bytes alive at the peak", share: true, first: 1 },
  blocks: { title: "blocks", format: count, help: "blocks of the allocator", first: 3 },
  raised: { title: "raised", format: count, help: "calls that raised an exception", first: 9 },
  calls_with_nan: { title: "NaN", format: count, help: "calls whose results have NaN", first: 1 },
  calls_with_inf: { title: "inf", format: count, help: "calls whose results have infinities", first: 1 },
  least: { title: "least", format: number, help: "the least finite element", first: 2 },
  most: { title: "most", format: number, help: "the greatest finite element", first: 2 },
  largest_norm: { title: "norm", format: number, help: "the largest L2 norm of a tensor", first: 3 },
};

// What widths of the call tree and bars of steps can show.
export const WEIGHTS = [
  ["self_ns", "time"], ["device_ns", "device time"], ["allocated_bytes", "allocated memory"], ["flops", "FLOP"], ["calls", "calls"],
];
