"""The page at `/docs`: it reads `/openapi.json` and shows it. Everything it needs is in it: no network is needed."""

from typing import Final

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}

HTML: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tenure</title>
<style>
  body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1c1c1c }
  h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
  details { border: 1px solid #d8d8d8; border-radius: 4px; margin: .3rem 0; padding: .3rem .6rem }
  summary { cursor: pointer } code, pre, textarea, input { font: 13px/1.4 ui-monospace, monospace }
  .method { display: inline-block; width: 4.5rem; font-weight: 700 } .what { color: #555; margin-left: 1rem }
  table { border-collapse: collapse; margin: .5rem 0 } td { padding: .1rem .8rem .1rem 0; vertical-align: top }
  textarea { width: 100%; box-sizing: border-box; height: 6rem }
  pre { background: #f4f4f4; padding: .5rem; overflow: auto }
  @media (prefers-color-scheme: dark) {
    body { background: #161616; color: #ddd } pre { background: #222 } .what { color: #aaa }
    details { border-color: #444 } textarea, input { background: #222; color: #ddd } }
</style>
<h1>Tenure</h1>
<p id="about"></p>
<p><label>Token <input id="token" type="password" size="50" autocomplete="off" placeholder="none"></label></p>
<div id="paths">Reading <a href="/openapi.json">/openapi.json</a> …</div>
<script>
"use strict";
const make = (name, text, more) => Object.assign(document.createElement(name), { textContent: text ?? "" }, more);
const named = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(named).join(" or ");
  if (schema.type === "array") return "list of " + (named(schema.items) || "anything");
  return schema.type ?? "anything";
};
const resolve = (api, schema) => (schema?.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema);
const table = (rows) => {
  const found = make("table");
  for (const cells of rows) {
    const row = make("tr");
    for (const cell of cells) row.append(make("td", cell));
    found.append(row);
  }
  return found;
};
async function call(method, path, query, body, out) {
  const headers = {};
  const token = document.getElementById("token").value;
  if (token) headers.authorization = "Bearer " + token;
  if (body) headers["content-type"] = "application/json";
  try {
    const answer = await fetch(path + (query ? "?" + query : ""), { method, headers, body: body || undefined });
    out.textContent = answer.status + " " + answer.statusText + "\\n" + (await answer.text());
  } catch (error) { out.textContent = String(error); }
}
function show(api, path, method, operation) {
  const box = make("details");
  const head = make("summary");
  head.append(make("span", method.toUpperCase(), { className: "method" }), make("code", path));
  head.append(make("span", operation.summary, { className: "what" }));
  box.append(head);
  const inputs = {};
  const query = make("input", "", { size: 60, placeholder: "limit=10&queue=mail" });
  const rows = [];
  for (const one of operation.parameters ?? []) rows.push([one.name, one.in, named(one.schema)]);
  const schema = resolve(api, operation.requestBody?.content["application/json"].schema);
  for (const [name, one] of Object.entries(schema?.properties ?? {}))
    rows.push([name, schema.required?.includes(name) ? "body, needed" : "body", named(one)]);
  box.append(table(rows));
  for (const one of operation.parameters ?? []) if (one.in === "path") {
    inputs[one.name] = make("input", "", { placeholder: one.name });
    box.append(inputs[one.name], " ");
  }
  if ((operation.parameters ?? []).some((one) => one.in === "query")) box.append(query, " ");
  const body = make("textarea", "", { value: "{}" });
  if (schema) box.append(body);
  const out = make("pre");
  const go = make("button", "Send");
  go.onclick = () => {
    let full = path;
    for (const [name, input] of Object.entries(inputs))
      full = full.replace(`{${name}}`, encodeURIComponent(input.value));
    call(method.toUpperCase(), full, query.value, schema ? body.value : "", out);
  };
  box.append(make("p"), go, out);
  return box;
}
fetch("/openapi.json").then((found) => found.json()).then((api) => {
  document.getElementById("about").textContent = api.info.description;
  const paths = document.getElementById("paths");
  paths.textContent = "";
  let last = "";
  for (const [path, operations] of Object.entries(api.paths)) {
    const group = path.split("/")[2] ?? "";
    if (group !== last) paths.append(make("h2", group || "server"));
    last = group;
    for (const [method, operation] of Object.entries(operations)) paths.append(show(api, path, method, operation));
  }
});
</script>
</html>
"""
