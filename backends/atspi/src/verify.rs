//! Whether an element is still the one that was listed.

use deskhand_core::desktop::effect::{Failure, FailureKind};
use deskhand_core::desktop::elements::Identity;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zbus::zvariant::{OwnedObjectPath, OwnedValue};

use crate::calls::{ACCESSIBLE, CallError, Calls, Object};
use crate::node::{Node, PASSWORD, children, state};
use crate::walk::{is_row, row_of};

/// The element as it is now, and the roles of what it stands in, from the nearest to the frame.
pub struct Verified {
    pub node: Node,
    pub parents: Vec<(Object, u32)>,
}

impl Verified {
    /// Nothing of a password field is read or written.
    pub fn not_secret(&self) -> Result<(), Failure> {
        let secret = self.node.role == PASSWORD || self.parents.iter().any(|(_, role)| *role == PASSWORD);
        if secret { Err(Failure::new(FailureKind::Secret, "this is a password field")) } else { Ok(()) }
    }
}

pub async fn verify(calls: &Calls, identity: &Identity, end: Instant) -> Result<Verified, Failure> {
    let stale = |why: &str| Failure::new(FailureKind::Stale, why);
    let gone = |e: CallError| match e {
        CallError::Said(_) => stale("the element is gone"),
        other => other.failure(),
    };
    let object = Object::new(identity.bus.clone(), identity.path.clone());
    let parents: Vec<Object> = identity.parents.iter().filter_map(|p| p.split_once(' ')).map(|(bus, path)| Object::new(bus, path)).collect();

    let mut links = JoinSet::new();
    for (at, parent) in parents.iter().cloned().enumerate() {
        let child = if at == 0 { object.clone() } else { parents[at - 1].clone() };
        let calls = calls.clone();
        links.spawn(async move {
            let (holds, role) = tokio::join!(is_child(&calls, &child, &parent, end), calls.ask::<_, u32>(&parent, ACCESSIBLE, "GetRole", &(), end));
            (at, holds.and_then(|holds| role.map(|role| (holds, role))))
        });
    }
    let node = Node::read(calls, object, end).await.map_err(gone)?;
    let mut roles = vec![0; parents.len()];
    while let Some(link) = links.join_next().await {
        let Ok((at, link)) = link else { return Err(stale("it couldn't be looked at")) };
        match link.map_err(gone)? {
            (true, role) => roles[at] = role,
            (false, _) => return Err(stale("the element is somewhere else now")),
        }
    }
    if node.has(state::DEFUNCT) {
        return Err(stale("the element is gone"));
    }
    if node.role_name() != identity.role || node.name != identity.name {
        return Err(stale("the element has another name or role now"));
    }
    if let Some(row) = &identity.row {
        let around = if is_row(node.role) { Some(node.object.clone()) } else { roles.iter().position(|role| is_row(*role)).map(|at| parents[at].clone()) };
        let Some(around) = around else { return Err(stale("the element is in no row any more")) };
        let around = Node::read(calls, around, end).await.map_err(gone)?;
        if row_of(calls, around, end).await.as_ref() != Some(row) {
            return Err(stale("the row around the element shows something else now"));
        }
    }
    Ok(Verified { node, parents: parents.into_iter().zip(roles).collect() })
}

/// Toolkits don't always name the parent that has the child in its list.
async fn is_child(calls: &Calls, child: &Object, parent: &Object, end: Instant) -> Result<bool, CallError> {
    let value: OwnedValue = calls.property(child, ACCESSIBLE, "Parent", end).await?;
    if let Ok((bus, path)) = <(String, OwnedObjectPath)>::try_from(value)
        && *parent == Object::new(bus, path.as_str())
    {
        return Ok(true);
    }
    Ok(children(calls, parent, end).await?.contains(child))
}
