//! The desktop toolset's errors: one list of name, cause, remedy and tools, from which the README's table is made.

use super::super::super::tools::facts::Refused;
use super::super::super::tools::toolset::Refusal;
use crate::desktop::effect::{Failure, FailureKind};
use crate::engine::cx::{Cx, Reason};
use crate::engine::world::World;

macro_rules! errors {
    ($($variant:ident $name:literal: $cause:literal, $remedy:literal, $tools:literal;)*) => {
        /// A named error of the desktop toolset.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Error { $(#[doc = $cause] $variant,)* }

        impl Error {
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }

        pub static REFUSALS: &[Refusal] = &[
            $(Refusal { name: $name, cause: $cause, remedy: $remedy, tools: $tools },)*
        ];
    };
}

errors! {
    Stopped "stopped": "The person set the stop flag, or it can't be watched; or the server is ending.", "Wait for the person: `deskhand resume` clears it.", "all but status";
    RecoveryRequired "recovery_required": "A dead server left keys or buttons pressed and the guard could not release them.", "The person runs `deskhand recover`.", "acting";
    LeaseRequired "lease_required": "The call needs the desktop's lease and doesn't have it.", "Call acquire_desktop, and give its `lease`.", "acting, and looking with a `lease` that ended";
    LeaseHeld "lease_held": "Another client holds the desktop's lease.", "Wait until it is released or idle, or ask the person.", "acting";
    NiriUnavailable "niri_unavailable": "The compositor (niri or sway) or its Wayland display can't be reached.", "Check that it runs: `deskhand doctor`.", "all but status";
    ReadOnly "read_only": "The compositor's version or events aren't understood, the policy is invalid, or the audit log can't be written.", "See `blockers` in status.", "acting, screenshot when the policy is invalid";
    ScreenLocked "screen_locked": "The screen is locked, or whether it is can't be known.", "The person unlocks it; on a headless or nested compositor the policy may say `assume_unlocked = true`, which a server reads when it starts.", "screenshot, acting";
    SessionMismatch "session_mismatch": "The Wayland display and the compositor's socket belong to different compositors.", "Start the server in the session that it is to drive.", "screenshot, acting";
    AppDenied "app_denied": "The policy denies this app.", "Leave it to the person, or have them change the policy.", "screenshot, acting";
    UnrestrictedRequired "unrestricted_required": "The policy allows this only with `unrestricted = true`.", "Find a way without it, or ask the person.", "niri_action, key, noctalia";
    UnknownPreset "unknown_preset": "The policy has no preset of this name.", "Use one that status lists.", "launch";
    RefInvalid "ref_invalid": "The screenshot named can't be aimed at: `unknown_ref`, `expired`, `output_changed` or `out_of_bounds`.", "Take a new screenshot under the lease and aim in that.", "pointer_move, click, drag, scroll, screenshot";
    TargetChanged "target_changed": "The screen around the target no longer looks as in the screenshot.", "Look at the fresh image that comes with this and aim again.", "click, drag";
    FocusMismatch "focus_mismatch": "The focused window, or the one at the target, isn't the expected one.", "Look at desktop_state; focus the window first.", "click, key, type_text, activate_element, set_element_text";
    TextTooLong "text_too_long": "More than 1000 characters to type, or more than 1 MiB to paste.", "Paste it, or send it in parts.", "type_text";
    UnmappableText "unmappable_text": "The text holds a character that can't be typed.", "Leave the character out.", "type_text, key";
    ClipboardUnsaved "clipboard_unsaved": "The clipboard holds something that can't be saved and restored: over 16 MiB, a slow owner, or a password.", "Type instead of pasting.", "type_text";
    SaveNotEnabled "save_not_enabled": "The policy names no `capture_dir`.", "Leave `save` out, or have the person set it.", "screenshot";
    PanelNotAllowed "panel_not_allowed": "This panel isn't one of those allowed.", "Use one of the panels in the schema.", "shell_panel";
    NotAccessible "not_accessible": "The window has no accessible tree.", "Use a screenshot.", "elements, activate_element, set_element_text";
    AmbiguousWindow "ambiguous_window": "Several accessible windows fit this window.", "Give it another title, or use a screenshot.", "elements, activate_element, set_element_text";
    ElementStale "element_stale": "The element is gone or is another one now, or no element of this lease has this ref.", "List the elements again, under the lease.", "activate_element, set_element_text, click, pointer_move";
    ElementUnmappable "element_unmappable": "Where the element is on the screen can't be known.", "Aim in a screenshot.", "click, pointer_move";
    SecretField "secret_field": "The element is a password field.", "Leave it to the person.", "activate_element, set_element_text";
    PausedByUser "paused_by_user": "The person is using keyboard or pointer.", "Wait a few seconds and look again.", "acting";
    ConsentRefused "consent_refused": "The person didn't agree.", "Ask the person.", "acquire_desktop";
    UntestedOutputConfig "untested_output_config": "The compositor doesn't give this output's geometry.", "Use another output.", "screenshot, pointer_move, click, drag, scroll";
    DeadlineExceeded "deadline_exceeded": "A backend's answer didn't come in its time.", "Try again; `status` shows what is down.", "all";
    UpstreamError "upstream_error": "The compositor or another program said no.", "Read `detail`.", "all";
    NoctaliaUnavailable "noctalia_unavailable": "Noctalia doesn't answer.", "Check that it runs.", "shell_panel, noctalia";
    Busy "busy": "Too many calls are in flight.", "Wait for answers before sending more.", "all";
}

impl Error {
    /// The refusal: what happened, and the remedy unless the text holds one already.
    pub fn because(self, detail: impl Into<String>) -> Refused {
        Refused::named(self.name(), detail)
    }

    pub fn plain(self, cause: &str) -> Refused {
        Refused::named(self.name(), format!("{cause} {}", self.remedy()))
    }
}

/// Why a call had to stop, told.
pub fn abandoned(w: &World, reason: Reason) -> Refused {
    if let (Reason::Stopped, Some(why)) = (reason, &w.stop_unwatched) {
        return Error::Stopped.because(format!("{} What was pressed is released.", super::gates::unwatched(why)));
    }
    match reason {
        Reason::Stopped => Error::Stopped.plain("The person stopped the desktop during this action; what was pressed is released."),
        Reason::LeaseLost | Reason::Cancelled => {
            Error::LeaseRequired.plain("The lease ended during this action; the rest was not done and what was pressed is released.")
        }
        Reason::Locked => Error::ScreenLocked.plain("The screen was locked during this action; the rest was not done and what was pressed is released."),
        Reason::CompositorGone => Error::NiriUnavailable.plain(&format!("{} ended during this action.", w.compositor_name())),
        Reason::ShuttingDown => Error::Stopped.because("The server is ending; what was pressed is released."),
    }
}

/// A backend's failure where nothing can have happened by halves: a look, or something refused outright.
pub fn failed(cx: &Cx, failure: &Failure) -> Refused {
    if let Some(reason) = cx.abandoned() {
        return cx.world(|w| abandoned(w, reason));
    }
    match failure.kind {
        FailureKind::Unavailable | FailureKind::Lost => Error::NiriUnavailable.because(format!("{}: {}", cx.world(|w| w.compositor_name()), failure.detail)),
        FailureKind::TimedOut | FailureKind::Unanswered | FailureKind::Abandoned => Error::DeadlineExceeded.because(failure.detail.clone()),
        FailureKind::NotFound | FailureKind::Refused => Error::UpstreamError.because(failure.detail.clone()),
        FailureKind::Unmappable => Error::UnmappableText.because(failure.detail.clone()),
        FailureKind::Unsaved => Error::ClipboardUnsaved.plain(&failure.detail),
        FailureKind::NotAccessible => Error::NotAccessible.plain(&format!("{}.", failure.detail)),
        FailureKind::Ambiguous => Error::AmbiguousWindow.plain(&format!("{}.", failure.detail)),
        FailureKind::Stale => Error::ElementStale.plain(&format!("{}; nothing was sent.", failure.detail)),
        FailureKind::Secret => Error::SecretField.plain(&format!("{}; nothing was read or sent.", failure.detail)),
        FailureKind::Fenced => Error::LeaseRequired.because(failure.detail.clone()),
    }
}
