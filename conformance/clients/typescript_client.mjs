// By npm @modelcontextprotocol/client: `node typescript_client.mjs legacy|auto|2026-07-28 WINDOW_APP_ID TEXT -- COMMAND...`.

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { commandLine, run } from "./session.mjs";

const [era, appId, text, server] = commandLine();
const mode = era === "legacy" || era === "auto" ? era : { pin: era };
const client = new Client({ name: "conformance", version: "1.0.0" }, { versionNegotiation: { mode } });
await run(client, new StdioClientTransport(server), appId, text);
