//! Which distribution this is, and what installs a package on it.

/// Those whose package names are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    Debian,
    Arch,
    Fedora,
    Other,
}

const KNOWN: [Distribution; 3] = [Distribution::Debian, Distribution::Arch, Distribution::Fedora];

impl Distribution {
    /// By `/etc/os-release`.
    pub fn here() -> Self {
        let read = |path| std::fs::read_to_string(path).ok();
        Self::of(&read("/etc/os-release").or_else(|| read("/usr/lib/os-release")).unwrap_or_default())
    }

    /// `ID` first, then those it says it is like.
    pub fn of(os_release: &str) -> Self {
        let value = |key: &str| {
            let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.unwrap_or_default().trim().trim_matches(['"', '\'']).to_ascii_lowercase()
        };
        let (id, like) = (value("ID"), value("ID_LIKE"));
        [id.as_str()].into_iter().chain(like.split_ascii_whitespace()).find_map(Self::named).unwrap_or(Self::Other)
    }

    fn named(id: &str) -> Option<Self> {
        match id {
            "debian" | "ubuntu" => Some(Self::Debian),
            "arch" | "archlinux" => Some(Self::Arch),
            "fedora" | "rhel" | "centos" => Some(Self::Fedora),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Debian => "Debian",
            Self::Arch => "Arch",
            Self::Fedora => "Fedora",
            Self::Other => "other",
        }
    }
}

/// What puts something right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mend {
    /// A command or a sentence.
    Told(String),
    /// Packages, by their names on each, separated by spaces.
    Packages { debian: String, arch: String, fedora: String },
}

impl Mend {
    pub fn told(what: impl Into<String>) -> Self {
        Self::Told(what.into())
    }

    pub fn packages(debian: impl Into<String>, arch: impl Into<String>, fedora: impl Into<String>) -> Self {
        Self::Packages { debian: debian.into(), arch: arch.into(), fedora: fedora.into() }
    }

    /// What to do, with the distribution where it matters; this machine's own first.
    pub fn commands(&self, here: Distribution) -> Vec<(Option<Distribution>, String)> {
        let (debian, arch, fedora) = match self {
            Self::Told(what) => return vec![(None, what.clone())],
            Self::Packages { debian, arch, fedora } => (debian, arch, fedora),
        };
        let mut order = KNOWN;
        order.sort_by_key(|d| *d != here);
        let command = |d: &Distribution| match d {
            Distribution::Arch => format!("sudo pacman -S {arch}"),
            Distribution::Fedora => format!("sudo dnf install {fedora}"),
            Distribution::Debian | Distribution::Other => format!("sudo apt install {debian}"),
        };
        order.iter().map(|d| (Some(*d), command(d))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_and_their_children() {
        for (text, expected) in [
            ("PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n", Distribution::Debian),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", Distribution::Debian),
            ("NAME=\"Arch Linux\"\nID=arch\n", Distribution::Arch),
            ("ID=cachyos\nID_LIKE=arch\n", Distribution::Arch),
            ("ID=fedora\nVERSION_ID=43\n", Distribution::Fedora),
            ("ID='rocky'\nID_LIKE='rhel centos fedora'\n", Distribution::Fedora),
            ("ID=nixos\n", Distribution::Other),
            ("", Distribution::Other),
        ] {
            assert_eq!(Distribution::of(text), expected, "{text}");
        }
    }

    #[test]
    fn another_distribution_gets_all_three() {
        let commands = Mend::packages("a", "b", "c").commands(Distribution::Other);
        assert_eq!(commands.len(), 3);
        assert_eq!(Mend::told("x").commands(Distribution::Arch), [(None, "x".to_string())]);
    }
}
