//! Which versions of niri are understood.

/// The first release whose event stream tells window sizes, urgency, the overview and configuration reloads.
const OLDEST: (u32, u32) = (25, 8);

/// Why this version can't be acted on; `None` when it is understood.
pub fn incompatible(version: &str) -> Option<String> {
    match parse(version) {
        Some(found) if found >= OLDEST => None,
        Some(_) => Some(format!(
            "niri {version} is older than {}.{:02}, the first whose IPC tells enough; update niri",
            OLDEST.0, OLDEST.1
        )),
        None => Some(format!(
            "niri's version {version:?} is not understood; {}.{:02} or newer is needed",
            OLDEST.0, OLDEST.1
        )),
    }
}

/// Year and month of a release (`26.04 (8ed0da44)`, `25.05.1`) or of a build from a date
/// (`unstable 2026-01-31 (commit 8ed0da44)`).
fn parse(version: &str) -> Option<(u32, u32)> {
    version.split_ascii_whitespace().find_map(|word| {
        let word = word.trim_start_matches('v');
        release(word).or_else(|| date(word))
    })
}

fn release(word: &str) -> Option<(u32, u32)> {
    let mut parts = word.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
    Some((major, minor.parse().ok()?))
}

fn date(word: &str) -> Option<(u32, u32)> {
    let mut parts = word.split('-');
    let year: u32 = parts.next()?.parse().ok()?;
    let month: u32 = parts.next()?.parse().ok()?;
    let _day: u32 = parts.next()?.parse().ok()?;
    (year >= 2000 && (1..=12).contains(&month)).then(|| (year - 2000, month))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_and_dated_builds() {
        assert_eq!(parse("26.04 (8ed0da44)"), Some((26, 4)));
        assert_eq!(parse("25.05.1 (unknown commit)"), Some((25, 5)));
        assert_eq!(parse("v26.10-rc1"), Some((26, 10)));
        assert_eq!(parse("unstable 2026-01-31 (commit 8ed0da44)"), Some((26, 1)));
        assert_eq!(parse("0.1.10.1 (abc)"), Some((0, 1)));
        for odd in ["", "unknown", "(8ed0da44)", "twenty.six", "99999999999.1", "2026-99-01"] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn what_can_be_acted_on() {
        assert_eq!(incompatible("26.04 (8ed0da44)"), None);
        assert_eq!(incompatible("27.01"), None);
        assert_eq!(incompatible("25.08"), None);
        assert!(incompatible("25.05.1").unwrap().contains("update niri"));
        assert!(incompatible("0.1.10").unwrap().contains("older"));
        assert!(incompatible("").unwrap().contains("not understood"));
    }
}
