//! The clients' configuration.

use serde_json::{Map, Value, json};

use super::binds::{for_shell, quoted};
use crate::cli::Client;

/// What the server and the programs that it launches need of the session.
const SESSION_VARIABLES: &[&str] = &[
    "XDG_RUNTIME_DIR",
    "WAYLAND_DISPLAY",
    "NIRI_SOCKET",
    "SWAYSOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_DIRS",
    "XDG_CURRENT_DESKTOP",
    "XDG_SESSION_TYPE",
    "DISPLAY",
];

/// `forwarded`: variables with their values, for clients that hand none on and can't be told to.
pub fn configuration(client: Client, program: &str, forwarded: &[(&str, String)]) -> String {
    match client {
        Client::ClaudeCode => claude_code(program),
        Client::Codex => codex(program),
        Client::Json => format!("{:#}\n", generic(program, forwarded)),
    }
}

/// For clients that connect to a running `deskhand serve`. The token itself isn't printed: terminals are shared.
pub fn over_http(client: Client) -> String {
    const URL: &str = "http://127.0.0.1:7333/mcp";
    match client {
        Client::ClaudeCode => format!(
            "With `deskhand serve` running:\n\n    claude mcp add --scope user --transport http deskhand {URL} \\\n        --header \"Authorization: Bearer $(deskhand token)\"\n"
        ),
        Client::Codex => format!(
            "# In ~/.codex/config.toml, and in the environment of Codex: export DESKHAND_TOKEN=\"$(deskhand token)\"\n\
             [mcp_servers.deskhand]\nurl = {}\nbearer_token_env_var = \"DESKHAND_TOKEN\"\n",
            quoted(URL)
        ),
        Client::Json => {
            let server = json!({"type": "http", "url": URL, "headers": {"Authorization": "Bearer <what `deskhand token` prints>"}});
            format!("{:#}\n", json!({"mcpServers": {"deskhand": server}}))
        }
    }
}

fn claude_code(program: &str) -> String {
    let shared = json!({"mcpServers": {"deskhand": {"type": "stdio", "command": program, "args": ["mcp"]}}});
    format!(
        "For all your projects:\n\n    claude mcp add --scope user deskhand -- {} mcp\n\n\
         or for one project, in its .mcp.json:\n\n{shared:#}\n",
        for_shell(program)
    )
}

/// Codex hands on only a few variables, and the session's aren't among them.
fn codex(program: &str) -> String {
    let names: Vec<String> = SESSION_VARIABLES.iter().map(|name| quoted(name)).collect();
    format!(
        "# In ~/.codex/config.toml. env_vars: Codex hands on only what is named.\n\
         [mcp_servers.deskhand]\ncommand = {}\nargs = [\"mcp\"]\nenv_vars = [{}]\n",
        quoted(program),
        names.join(", ")
    )
}

fn generic(program: &str, forwarded: &[(&str, String)]) -> Value {
    let mut server = json!({"command": program, "args": ["mcp"]});
    if !forwarded.is_empty() {
        server["env"] = Value::Object(forwarded.iter().map(|(name, value)| (name.to_string(), json!(value))).collect::<Map<_, _>>());
    }
    json!({"mcpServers": {"deskhand": server}})
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &str = "/home/o'neil/my \"bin\"/deskhand";

    #[test]
    fn json_and_toml_read_back() {
        let text = configuration(Client::Json, ODD, &[("WAYLAND_DISPLAY", "wayland-1".into())]);
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["mcpServers"]["deskhand"], json!({"command": ODD, "args": ["mcp"], "env": {"WAYLAND_DISPLAY": "wayland-1"}}));

        let read: toml::Table = configuration(Client::Codex, ODD, &[]).parse().unwrap();
        let server = &read["mcp_servers"]["deskhand"];
        assert_eq!(server["command"].as_str(), Some(ODD));
        assert!(server["env_vars"].as_array().unwrap().iter().any(|name| name.as_str() == Some("WAYLAND_DISPLAY")));
    }

    #[test]
    fn claude_codes_command_and_file_are_there() {
        let text = configuration(Client::ClaudeCode, "/usr/bin/deskhand", &[]);
        assert!(text.contains("claude mcp add --scope user deskhand -- /usr/bin/deskhand mcp\n"));
        let file = &text[text.find('{').unwrap()..];
        assert_eq!(serde_json::from_str::<Value>(file).unwrap()["mcpServers"]["deskhand"]["args"], json!(["mcp"]));
    }
}
