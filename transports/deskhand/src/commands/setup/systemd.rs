//! Units of the user's own systemd.

use super::binds::for_unit;

/// The service alone: it runs for as long as the graphical session.
pub fn service(program: &str) -> String {
    format!(
        "[Unit]\n\
         Description=Deskhand, an MCP server for this desktop\n\
         PartOf=graphical-session.target\n\
         After=graphical-session.target\n\
         \n\
         [Service]\n\
         ExecStart={} serve\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         TimeoutStopSec=5\n\
         # What agents launch outlives the server.\n\
         KillMode=process\n\
         NoNewPrivileges=yes\n\
         \n\
         [Install]\n\
         WantedBy=graphical-session.target\n",
        for_unit(program)
    )
}

/// With it the service starts when the first client connects.
pub fn socket() -> &'static str {
    "[Unit]\n\
     Description=Deskhand's port\n\
     PartOf=graphical-session.target\n\
     \n\
     [Socket]\n\
     ListenStream=127.0.0.1:7333\n\
     NoDelay=yes\n\
     \n\
     [Install]\n\
     WantedBy=graphical-session.target\n"
}

pub const HOW: &str = "\
# For as long as the session:      systemctl --user enable --now deskhand.service
# or only when a client connects:  systemctl --user enable --now deskhand.socket
#
# systemd must know the session. niri-session sees to it. For sway, unless your distribution does it already, a file
# ~/.config/systemd/user/sway-session.target:
#     [Unit]
#     Description=sway session
#     BindsTo=graphical-session.target
# and in sway's configuration:
#     exec systemctl --user import-environment WAYLAND_DISPLAY SWAYSOCK XDG_CURRENT_DESKTOP && systemctl --user start sway-session.target
";
