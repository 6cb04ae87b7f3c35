// An agent's session, the same for every JavaScript client.

import assert from "node:assert/strict";

export async function agentSession(client, appId, text) {
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  for (const name of ["status", "desktop_state", "screenshot", "acquire_desktop", "type_text", "click", "release_desktop"]) {
    assert(names.includes(name), `not listed: ${name}`);
  }
  const call = async (name, args = {}) => {
    const result = await client.callTool({ name, arguments: args });
    if (result.isError) throw new Error(`${name}: ${result.content[0].text}`);
    return result;
  };
  const status = facts(await call("status"));
  const { lease } = facts(await call("acquire_desktop"));
  const launched = facts(await call("launch", { preset: "terminal", lease }));
  assert.equal(launched.observed, "one", JSON.stringify(launched));
  const state = facts(await call("desktop_state"));
  const target = state.windows.find((window) => window.app_id === appId).id;
  assert.equal(facts(await call("focus", { window_id: target, lease })).observed, "focused");
  const picture = await call("screenshot", { max_width: 800, lease });
  assert.deepEqual(picture.content.map((block) => block.type), ["image", "text"]);
  const image = Buffer.from(picture.content[0].data, "base64");
  assert.equal(image.readUInt16BE(0), 0xffd8, "not a JPEG");
  const seen = JSON.parse(picture.content[1].text);
  const place = { x: Math.floor(seen.width / 2), y: Math.floor(seen.height / 2) };
  const clicked = facts(await call("click", { ...place, screenshot_ref: seen.screenshot_ref, guard: false, lease }));
  await call("focus", { window_id: target, lease });
  const typed = facts(await call("type_text", { text, expect: { window_id: target }, lease }));
  assert.equal(typed.typed, [...text].length);
  const found = launched.windows ?? launched.window_ids ?? [launched.window_id];
  const closed = facts(await call("close_window", { window_id: found[0].id ?? found[0], lease }));
  const released = facts(await call("release_desktop", { lease }));
  const refused = await client.callTool({ name: "key", arguments: { keys: ["a"], lease } });
  assert(refused.isError && facts(refused).error === "lease_required", JSON.stringify(refused));
  return {
    protocol: client.getNegotiatedProtocolVersion?.() ?? client.transport?.protocolVersion,
    server: client.getServerVersion()?.name,
    tools: names,
    blockers: status.blockers,
    screenshot: [seen.width, seen.height, image.length],
    clicked: clicked.observed,
    typed: typed.typed,
    closed: closed.observed,
    released,
  };
}

function facts(result) {
  const fromText = JSON.parse(result.content.find((block) => block.type === "text").text);
  if (result.structuredContent !== undefined) assert.deepEqual(fromText, result.structuredContent);
  return fromText;
}

// [era, appId, text, { command, args }]
export function commandLine() {
  const [era, appId, text, dashes, command, ...args] = process.argv.slice(2);
  assert.equal(dashes, "--", "usage: SCRIPT ERA WINDOW_APP_ID TEXT -- COMMAND [ARGUMENT...]");
  return [era, appId, text, { command, args, env: process.env, stderr: "inherit" }];
}

export async function run(client, transport, appId, text) {
  setTimeout(() => {
    console.error("not done after 90 s");
    process.exit(2);
  }, 90_000).unref();
  await client.connect(transport);
  const report = await agentSession(client, appId, text);
  await client.close();
  console.log(JSON.stringify(report));
}
