// The rows of the health matrix: fetched in pages as they come into view, the worst first.

import { isoDay, moment, seriesName } from "./format.js";

const PAGE = 2000;
const DAY = 86_400_000;

export class Rows {
  constructor(get) {
    this.get = get;
    this.rows = [];
    this.total = 0;
    this.cells = 0;
    this.cellDays = 1;
    this.provisional = 0;
    this.letters = {};
    this.start = null;
    this.query = {};
    this.request = new AbortController();
    this.loading = new Set();
  }

  /** Read the first page (and the one in view) anew; false where a later call has overtaken this one. */
  async load(query, first = 0) {
    this.request.abort();
    const request = (this.request = new AbortController());
    const page = Math.floor(first / PAGE);
    const [head, visible] = await Promise.all(
      [...new Set([0, page])].map((one) => this.get("matrix", { ...query, offset: one * PAGE, limit: PAGE }, request.signal)),
    );
    if (request !== this.request) return false;
    this.query = query;
    this.loading.clear();
    this.total = head.total;
    this.cells = head.cells;
    this.cellDays = head.cell_days;
    this.provisional = head.provisional;
    this.letters = head.letters;
    this.start = moment(head.from);
    this.rows = new Array(head.total);
    this.take(head);
    if (visible) this.take(visible);
    return true;
  }

  take(page) {
    page.rows.forEach((row, index) => { this.rows[page.offset + index] = row; });
  }

  /** Fetch what is missing of some rows; true where anything came. */
  async fill(first, last) {
    let loaded = false;
    for (let page = Math.floor(first / PAGE); page * PAGE <= last; page += 1) {
      const offset = page * PAGE;
      if (offset >= this.total || this.rows[offset] || this.loading.has(page)) continue;
      const { request } = this;
      this.loading.add(page);
      try {
        const answer = await this.get("matrix", { ...this.query, offset, limit: PAGE }, request.signal);
        if (request === this.request) this.take(answer);
        loaded = true;
      } finally {
        this.loading.delete(page);
      }
    }
    return loaded;
  }

  /** What a row is called; undefined where it has not come yet. Its variable is added only where rows differ in it. */
  name(row) {
    const one = this.rows[row];
    return one && (this.query.variable ? one.sensor : seriesName(one.sensor, one.variable));
  }

  state(row, column) {
    return this.letters[this.rows[row]?.cells[column]] ?? "nothing";
  }

  /** The first day of a column. */
  day(column) {
    return new Date(this.start.getTime() + column * this.cellDays * DAY);
  }

  /** The column of a day, or null outside. */
  column(day) {
    const column = Math.floor((moment(day) - this.start) / DAY / this.cellDays);
    return column >= 0 && column < this.cells ? column : null;
  }

  isProvisional(column) {
    return column >= this.cells - this.provisional;
  }

  /** The days of a column and some around them, as the sensor's page takes them. */
  around(column, days = 3) {
    const first = this.day(column).getTime();
    return { from: isoDay(new Date(first - days * DAY)), to: isoDay(new Date(first + (this.cellDays + days) * DAY)) };
  }

  close() {
    this.request.abort();
  }
}
