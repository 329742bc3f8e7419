// Search without a server: pages opened from a folder may start no worker and fetch no index, so the index is a
// script (search/index.js, which sets `searchIndex`) that search.html loads.
"use strict";

function wordsOf(query) {
  return query.toLowerCase().split(/\s+/).filter(Boolean);
}

/** Entries that hold every word, those with most of them in their title first. */
function found(words) {
  const inTitle = (entry) => words.filter((word) => entry.title.toLowerCase().includes(word)).length;
  return searchIndex
    .filter((entry) => {
      const text = (entry.title + " " + entry.text).toLowerCase();
      return words.every((word) => text.includes(word));
    })
    .sort((one, other) => inTitle(other) - inTitle(one));
}

/** What stands around the first of the words. */
function excerpt(text, words) {
  const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
  const start = Math.max(0, Math.min(...places, text.length) - 60);
  const end = start + 200;
  return (start > 0 ? "… " : "") + text.slice(start, end).trim() + (end < text.length ? " …" : "");
}

function article(entry, words) {
  const link = document.createElement("a");
  link.href = entry.location;
  link.textContent = entry.title;
  const title = document.createElement("h3");
  title.append(link);
  const summary = document.createElement("p");
  summary.textContent = excerpt(entry.text, words);
  const whole = document.createElement("article");
  whole.append(title, summary);
  return whole;
}

const box = document.getElementById("properdocs-search-query");
const results = document.getElementById("properdocs-search-results");

function show() {
  const words = wordsOf(box.value);
  const entries = words.length ? found(words) : [];
  results.replaceChildren(...entries.slice(0, 50).map((entry) => article(entry, words)));
  if (words.length && !entries.length) results.textContent = results.dataset.noResultsText;
}

box.value = new URLSearchParams(window.location.search).get("q") || "";
box.addEventListener("input", show);
show();
