//! The revisions of MCP and what each one changes, in one table.

/// Ordered by date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

use Revision::*;

impl Revision {
    pub const ALL: [Revision; 5] = [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28];
    /// What `initialize` is answered with when it asks for something unknown.
    pub const NEWEST_LEGACY: Revision = V2025_11_25;
    pub const MODERN: [Revision; 1] = [V2026_07_28];

    pub fn name(self) -> &'static str {
        match self {
            V2024_11_05 => "2024-11-05",
            V2025_03_26 => "2025-03-26",
            V2025_06_18 => "2025-06-18",
            V2025_11_25 => "2025-11-25",
            V2026_07_28 => "2026-07-28",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.name() == name)
    }

    /// Served by `_meta` on each request; the others by `initialize`.
    pub fn is_modern(self) -> bool {
        self >= V2026_07_28
    }

    pub fn has_batches(self) -> bool {
        self == V2025_03_26
    }

    pub fn has_annotations(self) -> bool {
        self >= V2025_03_26
    }

    pub fn has_progress_message(self) -> bool {
        self >= V2025_03_26
    }

    pub fn has_audio(self) -> bool {
        self >= V2025_03_26
    }

    pub fn has_resource_links(self) -> bool {
        self >= V2025_06_18
    }

    pub fn has_structured_content(self) -> bool {
        self >= V2025_06_18
    }

    /// `title` on tools and on `serverInfo`, `_meta` on tools.
    pub fn has_titles(self) -> bool {
        self >= V2025_06_18
    }

    /// `description` on `serverInfo`.
    pub fn has_server_description(self) -> bool {
        self >= V2025_11_25
    }

    /// `resultType`, `ttlMs`, `cacheScope`, `serverInfo` in `_meta`.
    pub fn has_result_type(self) -> bool {
        self.is_modern()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_in_order() {
        for pair in Revision::ALL.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].name() < pair[1].name());
        }
        for r in Revision::ALL {
            assert_eq!(Revision::parse(r.name()), Some(r));
        }
        assert_eq!(Revision::parse("2025-06-19"), None);
        assert!(Revision::MODERN.iter().all(|r| r.is_modern()) && !Revision::NEWEST_LEGACY.is_modern());
    }
}
