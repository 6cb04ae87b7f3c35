//! A window's tree: what the application has cached comes at once, the rest is asked for, many calls at a time.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use deskhand_core::desktop::elements::Truncated;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use zbus::zvariant::{ObjectPath, OwnedObjectPath};

use crate::calls::{ACCESSIBLE, CallError, Calls, Object};
use crate::node::{Interfaces, Node, children, cut, is_null, state_bits};

const CACHE: &str = "/org/a11y/atspi/cache";
const CACHE_INTERFACE: &str = "org.a11y.atspi.Cache";
/// Nodes of one tree.
const NODE_CAP: usize = 10_000;
/// Nodes that the application didn't send by itself.
const ASKED_CAP: usize = 3_000;
/// Of more children than this only as many are asked for: a toolkit makes an object for each.
const MANY_CHILDREN: i32 = 300;
const IN_FLIGHT: usize = 48;
/// Of a row, so many nodes count for what it shows.
const ROW_NODES: usize = 64;

#[derive(Default)]
pub struct Tree {
    pub nodes: Vec<Node>,
    pub parents: Vec<Option<usize>>,
    children: Vec<Vec<Option<usize>>>,
    pub truncated: Option<Truncated>,
}

impl Tree {
    pub fn children(&self, at: usize) -> impl DoubleEndedIterator<Item = usize> {
        self.children.get(at).into_iter().flatten().flatten().copied()
    }

    /// In the order of the tree, parents first.
    pub fn order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut stack = vec![0];
        while let Some(at) = stack.pop().filter(|_| !self.nodes.is_empty()) {
            order.push(at);
            stack.extend(self.children(at).rev());
        }
        order
    }

    /// From the nearest to the frame.
    pub fn ancestors(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.parents.get(at).copied().flatten(), |at| self.parents.get(*at).copied().flatten())
    }

    /// What the row around this node shows, if it stands in one.
    pub fn row(&self, at: usize) -> Option<String> {
        let row = std::iter::once(at).chain(self.ancestors(at)).find(|at| is_row(self.nodes[*at].role))?;
        let mut stack = vec![row];
        let mut shown = Vec::new();
        while let Some(at) = stack.pop() {
            shown.push((self.nodes[at].role, self.nodes[at].name.as_str()));
            if shown.len() == ROW_NODES {
                break;
            }
            stack.extend(self.children(at).rev());
        }
        Some(fingerprint(&shown))
    }

    fn add(&mut self, node: Node, parent: Option<usize>) -> usize {
        self.nodes.push(node);
        self.parents.push(parent);
        self.children.push(Vec::new());
        self.nodes.len() - 1
    }
}

/// Elements that a toolkit uses again for other contents.
pub fn is_row(role: u32) -> bool {
    matches!(crate::node::role_name(role), "list item" | "table row" | "tree item" | "table cell")
}

fn fingerprint(shown: &[(u32, &str)]) -> String {
    let mut hasher = DefaultHasher::new();
    shown.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// What the application sent unasked.
#[derive(Default)]
struct Cached {
    nodes: HashMap<Object, Node>,
    children: HashMap<Object, Vec<(i32, Object)>>,
}

type Reference<'a> = (&'a str, ObjectPath<'a>);
/// Object, application, parent, index in the parent, number of children, interfaces, name, role, description, states.
type Item<'a> = (Reference<'a>, Reference<'a>, Reference<'a>, i32, i32, Vec<&'a str>, &'a str, u32, &'a str, Vec<u32>);
/// Object, application, parent, children, the rest alike.
type OldItem<'a> = (Reference<'a>, Reference<'a>, Reference<'a>, Vec<Reference<'a>>, Vec<&'a str>, &'a str, u32, &'a str, Vec<u32>);

async fn cached(calls: &Calls, bus: &str, end: Instant) -> Cached {
    let mut cached = Cached::default();
    let Ok(reply) = calls.call(&Object::new(bus, CACHE), CACHE_INTERFACE, "GetItems", &(), end).await else { return cached };
    let body = reply.body();
    let object = |(bus, path): &Reference| Object::new(*bus, path.as_str());
    if let Ok(items) = body.deserialize::<Vec<Item>>() {
        for (of, _, parent, index, count, interfaces, name, role, _, states) in items {
            let node = Node { object: object(&of), name: cut(name), role, states: state_bits(&states), interfaces: Interfaces::of(interfaces), child_count: count };
            cached.children.entry(object(&parent)).or_default().push((index, node.object.clone()));
            cached.nodes.insert(node.object.clone(), node);
        }
    } else if let Ok(items) = body.deserialize::<Vec<OldItem>>() {
        for (of, _, _, children, interfaces, name, role, _, states) in items {
            let of = object(&of);
            let kids: Vec<(i32, Object)> = (0..).zip(children.iter().map(object)).collect();
            let child_count = i32::try_from(kids.len()).unwrap_or(-1);
            let node = Node { object: of.clone(), name: cut(name), role, states: state_bits(&states), interfaces: Interfaces::of(interfaces), child_count };
            cached.children.insert(of.clone(), kids);
            cached.nodes.insert(of, node);
        }
    }
    for kids in cached.children.values_mut() {
        kids.sort_by_key(|(index, _)| *index);
    }
    cached
}

enum Answer {
    /// All children of this node.
    Children(usize, Result<Vec<Object>, CallError>),
    /// The child of this node at this place.
    Child(usize, usize, Result<Node, CallError>),
}

struct Walk<'a> {
    calls: &'a Calls,
    cached: Cached,
    tree: Tree,
    seen: HashSet<Object>,
    asked: JoinSet<Answer>,
    asked_for: usize,
    turns: Arc<Semaphore>,
    end: Instant,
    /// Nodes whose children are still to be looked for.
    open: Vec<usize>,
}

/// The tree below this frame, as far as `end` and the caps let it.
pub async fn walk(calls: &Calls, frame: Node, end: Instant) -> Tree {
    let cached = cached(calls, &frame.object.bus, end).await;
    walk_from(calls, frame, cached, end).await
}

/// A small part of a tree, for what a row shows: everything is asked for, nothing taken from caches.
pub async fn row_of(calls: &Calls, row: Node, end: Instant) -> Option<String> {
    let tree = walk_from(calls, row, Cached::default(), end).await;
    tree.row(0)
}

async fn walk_from(calls: &Calls, frame: Node, cached: Cached, end: Instant) -> Tree {
    let mut walk = Walk {
        calls,
        cached,
        tree: Tree::default(),
        seen: HashSet::from([frame.object.clone()]),
        asked: JoinSet::new(),
        asked_for: 0,
        turns: Arc::new(Semaphore::new(IN_FLIGHT)),
        end,
        open: Vec::new(),
    };
    let first = walk.tree.add(frame, None);
    walk.open.push(first);
    loop {
        while let Some(at) = walk.open.pop() {
            walk.expand(at);
        }
        match timeout_at(end, walk.asked.join_next()).await {
            Ok(Some(Ok(answer))) => walk.take(answer),
            Ok(Some(Err(_))) => {}
            Ok(None) => break,
            Err(_) => {
                walk.tree.truncated = Some(Truncated::Deadline);
                break;
            }
        }
    }
    walk.tree
}

impl Walk<'_> {
    fn expand(&mut self, at: usize) {
        let (object, count) = (self.tree.nodes[at].object.clone(), self.tree.nodes[at].child_count);
        let known = self.cached.children.get(&object).map_or(0, Vec::len);
        if count == 0 && known == 0 {
            return;
        }
        if usize::try_from(count) == Ok(known) {
            let kids: Vec<Object> = self.cached.children.get(&object).into_iter().flatten().map(|(_, kid)| kid.clone()).collect();
            return self.adopt(at, kids);
        }
        if count > MANY_CHILDREN {
            self.tree.truncated.get_or_insert(Truncated::NodeCap);
            let slots = usize::try_from(MANY_CHILDREN).unwrap_or_default();
            self.tree.children[at] = vec![None; slots];
            for place in 0..slots {
                self.ask_child_at(at, object.clone(), place);
            }
            return;
        }
        let (calls, turns, end) = (self.calls.clone(), self.turns.clone(), self.end);
        self.asked.spawn(async move {
            let _turn = turns.acquire_owned().await;
            Answer::Children(at, children(&calls, &object, end).await)
        });
    }

    /// These are the node's children: known ones are taken, the others read.
    fn adopt(&mut self, at: usize, kids: Vec<Object>) {
        self.tree.children[at] = vec![None; kids.len()];
        for (place, kid) in kids.into_iter().enumerate() {
            if !self.seen.insert(kid.clone()) {
                continue;
            }
            match self.cached.nodes.remove(&kid) {
                Some(node) => self.put(at, place, node),
                None => self.ask_node(at, place, kid),
            }
        }
    }

    fn put(&mut self, at: usize, place: usize, node: Node) {
        if self.tree.nodes.len() >= NODE_CAP {
            self.tree.truncated.get_or_insert(Truncated::NodeCap);
            return;
        }
        let new = self.tree.add(node, Some(at));
        self.tree.children[at][place] = Some(new);
        self.open.push(new);
    }

    fn may_ask(&mut self) -> bool {
        self.asked_for += 1;
        let may = self.asked_for <= ASKED_CAP;
        if !may {
            self.tree.truncated.get_or_insert(Truncated::NodeCap);
        }
        may
    }

    fn ask_node(&mut self, at: usize, place: usize, object: Object) {
        if !self.may_ask() {
            return;
        }
        let (calls, turns, end) = (self.calls.clone(), self.turns.clone(), self.end);
        self.asked.spawn(async move {
            let _turn = turns.acquire_owned().await;
            Answer::Child(at, place, Node::read(&calls, object, end).await)
        });
    }

    fn ask_child_at(&mut self, at: usize, parent: Object, place: usize) {
        if !self.may_ask() {
            return;
        }
        let (calls, turns, end) = (self.calls.clone(), self.turns.clone(), self.end);
        self.asked.spawn(async move {
            let _turn = turns.acquire_owned().await;
            let index = i32::try_from(place).unwrap_or(i32::MAX);
            let found = calls.ask::<_, (String, OwnedObjectPath)>(&parent, ACCESSIBLE, "GetChildAtIndex", &index, end).await;
            let read = match found.map(|(bus, path)| Object::new(bus, path.as_str())) {
                Ok(object) if is_null(&object) => Err(CallError::Said("no child".into())),
                Ok(object) => Node::read(&calls, object, end).await,
                Err(e) => Err(e),
            };
            Answer::Child(at, place, read)
        });
    }

    fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Children(at, Ok(kids)) => {
                let many = usize::try_from(MANY_CHILDREN).unwrap_or_default() * 4;
                if kids.len() > many {
                    self.tree.truncated.get_or_insert(Truncated::NodeCap);
                }
                self.adopt(at, kids.into_iter().take(many).collect());
            }
            Answer::Child(at, place, Ok(node)) => {
                self.seen.insert(node.object.clone());
                self.put(at, place, node);
            }
            Answer::Children(_, Err(CallError::Said(_))) | Answer::Child(_, _, Err(CallError::Said(_))) => {}
            Answer::Children(..) | Answer::Child(..) => {
                self.tree.truncated = Some(Truncated::Deadline);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(path: &str, role: u32, name: &str) -> Node {
        Node { object: Object::new(":1.1", path), name: name.into(), role, states: 0, interfaces: Interfaces::default(), child_count: 0 }
    }

    #[test]
    fn a_row_is_known_by_all_it_shows() {
        let tree = |title: &str| {
            let mut tree = Tree::default();
            let list = tree.add(node("/list", 31, ""), None);
            let row = tree.add(node("/row", 32, ""), Some(list));
            let label = tree.add(node("/label", 29, title), Some(row));
            let button = tree.add(node("/button", 43, "Delete"), Some(row));
            tree.children[list] = vec![Some(row)];
            tree.children[row] = vec![Some(label), None, Some(button)];
            (tree, button, list)
        };
        let (one, button, list) = tree("Letter");
        let (other, again, _) = tree("Invoice");
        assert_ne!(one.row(button), other.row(again));
        assert_eq!(one.row(button), tree("Letter").0.row(button));
        assert_eq!(one.row(list), None);
        assert_eq!(one.order(), [0, 1, 2, 3]);
        assert_eq!(one.ancestors(button).collect::<Vec<_>>(), [1, 0]);
    }
}
