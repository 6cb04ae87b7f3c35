// `node summary.mjs RESULTS EXPECTED_FAILURES`: the suite's runs as a table, and what failed in them. Exits with 1 if a
// run failed, or if a check that should have been made wasn't: the suite lets those pass.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

const [results, expectedFile] = process.argv.slice(2);

const expected = new Set(readFileSync(expectedFile, "utf8").match(/^ +- .*$/gm)?.map((line) => line.trim().slice(2)));
// The suite's own log of what it sent and got.
const LOG = new Set(["outgoing-request", "incoming-response", "incoming-sse-event", "stream-closed"]);
// Plain JSON answers are as good as streams; extensions that aren't declared aren't due.
const mayBeLeftOut = (scenario, check) =>
  check === "server-sse-streams-functional" || scenario.startsWith("tasks-") || scenario.startsWith("sep-2640-");

const COLUMNS = ["run", "scenarios", "passed", "failed", "warned", "not made", "expected failures", "result"];
const rows = [];
const complaints = [];

for (const run of readdirSync(results).sort()) {
  const count = { SUCCESS: 0, FAILURE: 0, WARNING: 0, left: 0 };
  const failedAsExpected = new Set();
  const before = complaints.length;
  const complain = (text) => complaints.push(`${run}: ${text.slice(0, 600)}`);
  const scenarios = scenariosOf(join(results, run, "checks"));
  for (const { scenario, checks } of scenarios) {
    for (const check of checks) {
      const left = check.status === "INFO" || check.status === "SKIPPED";
      if (expected.has(scenario) && !left && check.status !== "SUCCESS") {
        failedAsExpected.add(scenario);
      } else if (!left) {
        count[check.status] += 1;
        if (check.status !== "SUCCESS") complain(`${scenario}: ${check.status} ${check.id} (${check.name})\n    ${check.errorMessage}`);
      } else if (!LOG.has(check.id)) {
        count.left += 1;
        if (!mayBeLeftOut(scenario, check.id)) complain(`${scenario}: not made: ${check.id}\n    ${check.errorMessage ?? check.details?.message}`);
      }
    }
  }
  const exit = Number(readFileSync(join(results, run, "exit"), "utf8"));
  if (scenarios.length === 0) complain("no scenario ran");
  if (exit !== 0) complain(`the suite ended with ${exit}; see ${join(results, run, "log")}`);
  const result = complaints.length === before ? "pass" : "FAIL";
  rows.push([run, scenarios.length, count.SUCCESS, count.FAILURE, count.WARNING, count.left, failedAsExpected.size, result]);
}

if (rows.length === 0) complaints.push("there was no run");
for (const complaint of complaints) console.log(complaint);
const table = [COLUMNS, ...rows];
const widths = COLUMNS.map((_, i) => Math.max(...table.map((row) => String(row[i]).length)));
for (const row of table) {
  console.log(row.map((cell, i) => (i === 0 ? String(cell).padEnd(widths[i]) : String(cell).padStart(widths[i]))).join("  "));
}
process.exitCode = complaints.length === 0 ? 0 : 1;

// A folder of theirs is named server-SCENARIO-TIME.
function scenariosOf(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder).map((name) => ({
    scenario: name.replace(/^server-/, "").replace(/-\d{4}-\d{2}-\d{2}T[\d-]+Z$/, ""),
    checks: JSON.parse(readFileSync(join(folder, name, "checks.json"), "utf8")),
  }));
}
