// By npm @modelcontextprotocol/sdk (v1): `node typescript_sdk.mjs legacy WINDOW_APP_ID TEXT -- COMMAND...`.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

import { commandLine, run } from "./session.mjs";

const [, appId, text, server] = commandLine();
const client = new Client({ name: "conformance", version: "1.0.0" });
await run(client, new StdioClientTransport(server), appId, text);
