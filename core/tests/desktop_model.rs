//! The desktop's snapshots: whatever events come, differences patch, and compare as they should.

use deskhand_core::desktop::changes::changes;
use deskhand_core::desktop::diff::{diff, patch};
use deskhand_core::desktop::event::DesktopEvent;
use deskhand_core::desktop::geometry::Transform;
use deskhand_core::desktop::model::{KeyboardLayouts, LogicalOutput, Output, Place, Window, WindowLayout, Workspace};
use deskhand_core::desktop::report;
use deskhand_core::desktop::state::Desktop;
use proptest::collection::vec as many;
use proptest::prelude::*;

/// Few ids, so that events meet.
fn id() -> impl Strategy<Value = u64> {
    0..5u64
}

fn title() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("[ab]{0,2}")
}

fn layout() -> impl Strategy<Value = WindowLayout> {
    (0..3i32, 0..3i32, 0..3u8).prop_map(|(w, h, place)| WindowLayout {
        window_size: (w, h),
        tile_size: (f64::from(w), f64::from(h)),
        place: [Place::Unknown, Place::OnOutput(1.5, 2.0), Place::InLayout(3.0, 4.0)][usize::from(place)],
    })
}

fn window() -> impl Strategy<Value = Window> {
    (id(), title(), proptest::option::of(id()), any::<bool>(), any::<bool>(), layout()).prop_map(|(id, title, workspace_id, floating, urgent, layout)| Window {
        id,
        title,
        app_id: None,
        pid: None,
        workspace_id,
        floating,
        urgent,
        layout,
    })
}

fn workspace() -> impl Strategy<Value = Workspace> {
    (id(), 0..3u32, proptest::option::of("[AB]"), any::<bool>(), any::<bool>(), proptest::option::of(id())).prop_map(
        |(id, index, output, active, focused, active_window)| Workspace {
            id,
            index,
            name: None,
            output,
            active,
            focused,
            urgent: false,
            active_window,
        },
    )
}

fn output() -> impl Strategy<Value = Output> {
    ("[AB]", proptest::option::of(0..3i32)).prop_map(|(name, x)| Output {
        name,
        logical: x.map(|x| LogicalOutput { x, y: 0, width: 100, height: 100, scale: 1.0, transform: Transform::Normal }),
        mode: None,
    })
}

fn event() -> impl Strategy<Value = DesktopEvent> {
    prop_oneof![
        many(workspace(), 0..4).prop_map(DesktopEvent::Workspaces),
        (many(window(), 0..4), proptest::option::of(id())).prop_map(|(windows, focused)| DesktopEvent::Windows { windows, focused }),
        (window(), any::<bool>()).prop_map(|(window, focused)| DesktopEvent::WindowOpenedOrChanged { window, focused }),
        id().prop_map(DesktopEvent::WindowClosed),
        proptest::option::of(id()).prop_map(DesktopEvent::FocusChanged),
        many((id(), layout()), 0..3).prop_map(DesktopEvent::LayoutsChanged),
        (id(), any::<bool>()).prop_map(|(id, urgent)| DesktopEvent::WindowUrgency { id, urgent }),
        (id(), any::<bool>()).prop_map(|(id, urgent)| DesktopEvent::WorkspaceUrgency { id, urgent }),
        (id(), any::<bool>()).prop_map(|(id, focused)| DesktopEvent::WorkspaceActivated { id, focused }),
        (id(), proptest::option::of(id())).prop_map(|(id, window)| DesktopEvent::WorkspaceActiveWindow { id, window }),
        many("[ab]", 0..3).prop_map(|names| DesktopEvent::KeyboardLayouts(KeyboardLayouts { names, current: 0 })),
        (0..9usize).prop_map(DesktopEvent::KeyboardLayoutSwitched),
        any::<bool>().prop_map(|open| DesktopEvent::Overview { open }),
        many(output(), 0..3).prop_map(DesktopEvent::Outputs),
        any::<bool>().prop_map(|failed| DesktopEvent::ConfigLoaded { failed }),
        Just(DesktopEvent::Unknown("x".into())),
    ]
}

fn after(from: &Desktop, events: &[DesktopEvent]) -> Desktop {
    let mut desktop = from.clone();
    for event in events {
        desktop.apply(event);
    }
    desktop
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_difference_patches(first in proptest::collection::vec(event(), 0..20), then in proptest::collection::vec(event(), 0..20)) {
        let a = after(&Desktop::default(), &first);
        let b = after(&a, &then);
        prop_assert_eq!(&patch(&a, &diff(&a, &b)), &b);
        prop_assert_eq!(&patch(&b, &diff(&b, &a)), &a);
        prop_assert!(diff(&a, &a).is_empty());
        prop_assert_eq!(changes(&a, &a), None);
        // Apart from its allocations and its number, nothing tells equal desktops apart.
        prop_assert_eq!(diff(&a, &b).is_empty(), Desktop { seq: 0, ..a.clone() } == Desktop { seq: 0, ..b.clone() });
    }

    #[test]
    fn seq_grows_exactly_with_changes(events in proptest::collection::vec(event(), 0..30)) {
        let mut desktop = Desktop::default();
        for event in &events {
            let before = desktop.clone();
            let changed = desktop.apply(event);
            prop_assert_eq!(changed, !diff(&before, &desktop).is_empty());
            prop_assert_eq!(desktop.seq, before.seq + u64::from(changed));
            // Telling never fails.
            report::desktop(&desktop);
            report::delta(&desktop, &diff(&before, &desktop));
        }
    }

    #[test]
    fn at_most_one_workspace_has_the_focus_once_one_was_activated(events in proptest::collection::vec(event(), 0..30), which in id()) {
        let mut desktop = after(&Desktop::default(), &events);
        desktop.apply(&DesktopEvent::WorkspaceActivated { id: which, focused: true });
        if desktop.workspaces.contains_key(&which) {
            prop_assert_eq!(desktop.focused_workspace().map(|w| w.id), Some(which));
            prop_assert_eq!(desktop.workspaces.values().filter(|w| w.focused).count(), 1);
        }
    }
}
