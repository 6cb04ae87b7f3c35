//! What the tests of this crate share: the toolsets by name, and the traces' places.

use std::path::{Path, PathBuf};

use deskhand_core::tools::toolset::Toolset;
use deskhand_core::toolsets::desktop::DESKTOP;

/// For [`deskhand_core::trace::replay`].
pub fn toolset(name: &str) -> Option<&'static Toolset> {
    (name == DESKTOP.name).then_some(&DESKTOP)
}

/// The `.jsonl` files of a folder below `traces`, sorted.
pub fn traces(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("traces")
        .join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map(|entries| {
            entries
                .filter_map(|e| e.ok())
                .map(|e| e.path())
                .filter(|p| p.extension().is_some_and(|e| e == "jsonl"))
                .collect()
        })
        .unwrap_or_default();
    files.sort();
    files
}
