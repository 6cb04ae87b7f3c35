//! The accessibility backend: requests of the core, answered from the bus.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deskhand_core::desktop::effect::{Failure, FailureKind, Outcome, Reply};
use deskhand_core::desktop::elements::{AccessRequest, AccessWindow, Element, ElementNow, ElementsRequest, Identity, Listing, NoBox, Presence, Truncated};
use deskhand_core::desktop::geometry::Rect;
use deskhand_ports::{Access, Observe, Ticket};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::act;
use crate::calls::{COMPONENT, Calls, Object};
use crate::find::{self, Found};
use crate::follow::{self, Bus, Shared};
use crate::node::{FRAME, Node, PASSWORD, is_meaningful, role_name, state, words};
use crate::place::{self, Toolkit, offset};
use crate::verify::verify;
use crate::walk::{Tree, walk};

/// Kept free for actions and places when looking takes all of its time.
const DETAILS: Duration = Duration::from_millis(400);

/// Follows the session's accessibility bus. Dropping it ends that.
pub struct AtSpi {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl AtSpi {
    /// `session_bus` is the address of the session's message bus. With `enable`, accessibility is started and switched
    /// on; otherwise it is used where it is on. Returns at once; what is found comes as observations.
    pub fn start(session_bus: Option<String>, enable: bool, observe: Observe) -> Self {
        let shared = Arc::new(Shared::new(observe));
        let task = tokio::spawn(follow::follow(shared.clone(), session_bus, enable));
        Self { shared, task }
    }

    /// Until it is known whether there is a bus.
    pub async fn told(&self) {
        self.shared.told().await;
    }
}

impl Drop for AtSpi {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[async_trait]
impl Access for AtSpi {
    async fn request(&self, request: AccessRequest, ticket: Ticket) -> Outcome {
        let Bus { calls, enabled } = self.shared.bus().map_err(|why| Failure::new(FailureKind::NotAccessible, why))?;
        let end = Instant::from_std(ticket.deadline);
        self.shared.prepare(&calls, end).await;
        match request {
            AccessRequest::Elements(request) => elements(&calls, &request, enabled, end).await.map(Reply::Elements),
            AccessRequest::Look { element, window } => look(&calls, &element, &window, enabled, end).await.map(Reply::Element),
            AccessRequest::Activate { element, action } => act::activate(&calls, &element, &action, &ticket, end).await.map(Reply::Element),
            AccessRequest::SetText { element, text } => act::set_text(&calls, &element, &text, &ticket, end).await.map(Reply::TextSet),
            AccessRequest::Focus { element } => act::focus(&calls, &element, &ticket, end).await.map(Reply::Element),
            AccessRequest::CompareText { element, text } => act::compare(&calls, &element, &text, end).await.map(Reply::TextSet),
        }
    }
}

async fn elements(calls: &Calls, request: &ElementsRequest, enabled: bool, end: Instant) -> Result<Listing, Failure> {
    let looking = end.min(Instant::now() + Duration::from_millis(u64::from(request.budget_ms)));
    let found = find::window(calls, &request.window, enabled, looking).await?;
    let tree = walk(calls, found.frame.clone(), looking).await;
    let (chosen, more) = choose(&tree, request);
    let mut truncated = tree.truncated;
    if more {
        truncated = Some(Truncated::Limit);
    }
    let details_end = end.min(looking + DETAILS);
    let details = if request.details {
        let missing = vec![Details::default(); chosen.len()];
        Some(details(calls, &tree, &chosen, &found, request.window.size, details_end).await.unwrap_or(missing))
    } else {
        None
    };
    let elements = chosen
        .iter()
        .enumerate()
        .map(|(n, at)| {
            let node = &tree.nodes[*at];
            let detail = details.as_ref().map(|all| all[n].clone()).unwrap_or_default();
            let shown = match found.toolkit {
                Toolkit::Gtk4 => node.has(state::SHOWING) || node.has(state::VISIBLE) && detail.place != Err(NoBox::NotShown),
                _ => node.has(state::SHOWING),
            };
            Element { identity: identity(&tree, *at), states: words(node.role, node.states, shown), actions: detail.actions, place: detail.place }
        })
        .collect();
    let nodes = u32::try_from(tree.nodes.len()).unwrap_or(u32::MAX);
    let hint = (nodes <= 2 && truncated.is_none()).then(|| hint(found.toolkit));
    Ok(Listing { elements, truncated, nodes, hint })
}

fn hint(toolkit: Toolkit) -> String {
    match toolkit {
        Toolkit::Chromium => "this app shows an empty tree: start it with --force-renderer-accessibility".into(),
        Toolkit::Gecko => "this app shows an empty tree: it fills once accessibility is on (the policy's accessibility = \"enable\") and it was started again".into(),
        _ => "this app shows an empty tree; Chromium and Electron apps want --force-renderer-accessibility".into(),
    }
}

/// The elements that fit, in the order of the tree, and whether there are more.
fn choose(tree: &Tree, request: &ElementsRequest) -> (Vec<usize>, bool) {
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let part = request.name_contains.as_ref().map(|part| part.to_lowercase());
    let mut chosen = Vec::new();
    for at in tree.order() {
        let node = &tree.nodes[at];
        let fits = match &request.role {
            Some(role) => node.role_name() == role,
            None => is_meaningful(node, &node.name) && !repeats_its_parent(tree, at),
        };
        if !fits || part.as_ref().is_some_and(|part| !node.name.to_lowercase().contains(part)) {
            continue;
        }
        if chosen.len() == limit {
            return (chosen, true);
        }
        chosen.push(at);
    }
    (chosen, false)
}

/// A button's own label says nothing new.
fn repeats_its_parent(tree: &Tree, at: usize) -> bool {
    let node = &tree.nodes[at];
    role_name(node.role) == "label"
        && tree.children(at).next().is_none()
        && tree.ancestors(at).next().map(|p| &tree.nodes[p]).is_some_and(|p| p.name == node.name && p.interfaces.action)
}

fn identity(tree: &Tree, at: usize) -> Identity {
    let node = &tree.nodes[at];
    let told = |at: usize| format!("{} {}", tree.nodes[at].object.bus, tree.nodes[at].object.path);
    Identity {
        bus: node.object.bus.clone(),
        path: node.object.path.clone(),
        role: node.role_name().into(),
        name: node.name.clone(),
        parents: tree.ancestors(at).map(told).collect(),
        row: tree.row(at),
    }
}

#[derive(Clone)]
struct Details {
    actions: Vec<String>,
    place: Result<Rect, NoBox>,
}

impl Default for Details {
    fn default() -> Self {
        Self { actions: Vec::new(), place: Err(NoBox::NotTold) }
    }
}

async fn details(calls: &Calls, tree: &Tree, chosen: &[usize], found: &Found, size: (i32, i32), end: Instant) -> Option<Vec<Details>> {
    let coordinates = found.toolkit.coordinates();
    // Besides the elements: what the window's origin is told by, and what clips them.
    let mut wanted: Vec<usize> = chosen.to_vec();
    let origin: Vec<usize> = tree.children(0).chain(tree.children(0).flat_map(|at| tree.children(at))).take(32).collect();
    wanted.push(0);
    wanted.extend(&origin);
    wanted.extend(chosen.iter().flat_map(|at| tree.ancestors(*at)).filter(|at| clips(tree.nodes[*at].role)));
    wanted.sort_unstable();
    wanted.dedup();

    let mut places = JoinSet::new();
    for at in wanted {
        let node = &tree.nodes[at];
        if !node.interfaces.component {
            continue;
        }
        let (calls, object) = (calls.clone(), node.object.clone());
        places.spawn(async move { (at, extents(&calls, &object, coordinates, end).await) });
    }
    let mut actions = JoinSet::new();
    for (n, at) in chosen.iter().enumerate() {
        let node = &tree.nodes[*at];
        if !node.interfaces.action || node.role == PASSWORD {
            continue;
        }
        let (calls, object, frame) = (calls.clone(), node.object.clone(), node.role == FRAME);
        actions.spawn(async move {
            let all = act::actions(&calls, &object, end).await.unwrap_or_default();
            // GTK 4 repeats the application's own actions at every widget.
            let kept = all.into_iter().filter(|name| !name.is_empty() && (frame || !name.contains('.')));
            (n, kept.take(16).collect::<Vec<_>>())
        });
    }

    let mut rects: Vec<Option<Rect>> = vec![None; tree.nodes.len()];
    while let Some(place) = places.join_next().await {
        if let Ok((at, rect)) = place {
            rects[at] = rect;
        }
    }
    let inside: Vec<Rect> = origin.iter().filter_map(|at| rects[*at]).collect();
    let moved = offset(found.toolkit, rects[0], &inside, size);
    let mut all: Vec<Details> = chosen
        .iter()
        .map(|at| {
            let clips = tree.ancestors(*at).filter(|at| clips(tree.nodes[*at].role)).filter_map(|at| rects[at]);
            Details { actions: Vec::new(), place: placed(&tree.nodes[*at], found.toolkit, rects[*at], clips, moved, size) }
        })
        .collect();
    while let Some(one) = actions.join_next().await {
        if let Ok((n, names)) = one {
            all[n].actions = names;
        }
    }
    Some(all)
}

/// What is scrolled within it is shown within it only.
fn clips(role: u32) -> bool {
    matches!(role_name(role), "scroll pane" | "viewport")
}

async fn extents(calls: &Calls, object: &Object, coordinates: u32, end: Instant) -> Option<Rect> {
    let told: (i32, i32, i32, i32) = match calls.ask::<_, ((i32, i32, i32, i32),)>(object, COMPONENT, "GetExtents", &coordinates, end).await {
        Ok((told,)) => told,
        Err(_) => return None,
    };
    place::extents(told)
}

fn placed(node: &Node, toolkit: Toolkit, rect: Option<Rect>, clips: impl Iterator<Item = Rect>, moved: Option<(i32, i32)>, size: (i32, i32)) -> Result<Rect, NoBox> {
    if !node.interfaces.component {
        return Err(NoBox::NoComponent);
    }
    let told_hidden = toolkit != Toolkit::Gtk4 && !node.has(state::SHOWING);
    let Some(mut rect) = rect.filter(|_| !told_hidden) else {
        return Err(if toolkit == Toolkit::Gtk4 || told_hidden { NoBox::NotShown } else { NoBox::NotTold });
    };
    for clip in clips {
        rect = rect.intersect(&clip).ok_or(NoBox::NotShown)?;
    }
    place::place(rect, moved, size)
}

/// One element as it is now: verified, with its place.
async fn look(calls: &Calls, element: &Identity, window: &AccessWindow, enabled: bool, end: Instant) -> Result<ElementNow, Failure> {
    let (verified, found) = tokio::join!(verify(calls, element, end), find::window(calls, window, enabled, end));
    let (verified, found) = (verified?, found?);
    if verified.parents.last().map(|(object, _)| object).unwrap_or(&verified.node.object) != &found.frame.object {
        return Err(Failure::new(FailureKind::Stale, "the element is in another window now"));
    }
    let coordinates = found.toolkit.coordinates();
    let frame = found.frame.object.clone();
    let at = |object: Object| async move { extents(calls, &object, coordinates, end).await };
    let (rect, frame_rect, inside) = tokio::join!(
        async { if verified.node.interfaces.component { at(verified.node.object.clone()).await } else { None } },
        at(frame.clone()),
        origins(calls, &found, coordinates, end),
    );
    let mut clipping = Vec::new();
    for (object, role) in &verified.parents {
        if clips(*role) {
            clipping.extend(at(object.clone()).await);
        }
    }
    let moved = offset(found.toolkit, frame_rect, &inside, window.size);
    let place = placed(&verified.node, found.toolkit, rect, clipping.into_iter(), moved, window.size);
    let shown = place != Err(NoBox::NotShown);
    let states = words(verified.node.role, verified.node.states, shown);
    Ok(ElementNow { presence: Presence::Present, before: states.clone(), states, place })
}

/// Extents of what the frame holds, for toolkits that tell its origin by them.
async fn origins(calls: &Calls, found: &Found, coordinates: u32, end: Instant) -> Vec<Rect> {
    if !matches!(found.toolkit, Toolkit::Gtk3 | Toolkit::Chromium) {
        return Vec::new();
    }
    let mut inside = Vec::new();
    let below = crate::node::children(calls, &found.frame.object, end).await.unwrap_or_default();
    for object in below.iter().take(8) {
        inside.extend(checked_extents(calls, object, coordinates, end).await);
        for deeper in crate::node::children(calls, object, end).await.unwrap_or_default().iter().take(8) {
            inside.extend(checked_extents(calls, deeper, coordinates, end).await);
        }
    }
    inside
}

async fn checked_extents(calls: &Calls, object: &Object, coordinates: u32, end: Instant) -> Option<Rect> {
    let node = Node::read(calls, object.clone(), end).await.ok().filter(|node| node.interfaces.component)?;
    extents(calls, &node.object, coordinates, end).await
}
