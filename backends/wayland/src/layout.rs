//! The US layout that virtual keys are pressed on: evdev codes, xkb names and keysyms.

/// One key: its evdev code, its xkb name, and the keysyms without and with Shift.
pub(crate) struct Key {
    pub code: u32,
    pub name: &'static str,
    pub plain: u32,
    pub shifted: u32,
}

const fn key(code: u32, name: &'static str, plain: u32) -> Key {
    Key {
        code,
        name,
        plain,
        shifted: plain,
    }
}

const fn both(code: u32, name: &'static str, plain: u32, shifted: u32) -> Key {
    Key {
        code,
        name,
        plain,
        shifted,
    }
}

const fn printed(code: u32, name: &'static str, plain: char, shifted: char) -> Key {
    Key {
        code,
        name,
        plain: plain as u32,
        shifted: shifted as u32,
    }
}

pub(crate) const RETURN: u32 = 28;
pub(crate) const TAB: u32 = 15;
pub(crate) const LEFT_SHIFT: u32 = 42;
pub(crate) const LEFT_CTRL: u32 = 29;
pub(crate) const LEFT_ALT: u32 = 56;
pub(crate) const LEFT_SUPER: u32 = 125;
/// Where a chord's symbol goes that the US layout lacks: the key beside the left Shift of 105-key boards prints too.
pub(crate) const SPARE_PRINTED: Key = printed(86, "LSGT", '<', '>');
/// Where any other keysym goes that is nowhere else (F24's place).
pub(crate) const SPARE_OTHER: Key = key(194, "FK24", 0xffd5);

/// The keys that print on every keyboard, in the order in which a text's own symbols are put on their third level.
/// Only these positions are used for text: some applications translate others by their code.
#[rustfmt::skip]
pub(crate) const PRINTED: [Key; 47] = [
    printed(2, "AE01", '1', '!'), printed(3, "AE02", '2', '@'), printed(4, "AE03", '3', '#'),
    printed(5, "AE04", '4', '$'), printed(6, "AE05", '5', '%'), printed(7, "AE06", '6', '^'),
    printed(8, "AE07", '7', '&'), printed(9, "AE08", '8', '*'), printed(10, "AE09", '9', '('),
    printed(11, "AE10", '0', ')'), printed(12, "AE11", '-', '_'), printed(13, "AE12", '=', '+'),
    printed(16, "AD01", 'q', 'Q'), printed(17, "AD02", 'w', 'W'), printed(18, "AD03", 'e', 'E'),
    printed(19, "AD04", 'r', 'R'), printed(20, "AD05", 't', 'T'), printed(21, "AD06", 'y', 'Y'),
    printed(22, "AD07", 'u', 'U'), printed(23, "AD08", 'i', 'I'), printed(24, "AD09", 'o', 'O'),
    printed(25, "AD10", 'p', 'P'), printed(26, "AD11", '[', '{'), printed(27, "AD12", ']', '}'),
    printed(30, "AC01", 'a', 'A'), printed(31, "AC02", 's', 'S'), printed(32, "AC03", 'd', 'D'),
    printed(33, "AC04", 'f', 'F'), printed(34, "AC05", 'g', 'G'), printed(35, "AC06", 'h', 'H'),
    printed(36, "AC07", 'j', 'J'), printed(37, "AC08", 'k', 'K'), printed(38, "AC09", 'l', 'L'),
    printed(39, "AC10", ';', ':'), printed(40, "AC11", '\'', '"'), printed(41, "TLDE", '`', '~'),
    printed(43, "BKSL", '\\', '|'), printed(44, "AB01", 'z', 'Z'), printed(45, "AB02", 'x', 'X'),
    printed(46, "AB03", 'c', 'C'), printed(47, "AB04", 'v', 'V'), printed(48, "AB05", 'b', 'B'),
    printed(49, "AB06", 'n', 'N'), printed(50, "AB07", 'm', 'M'), printed(51, "AB08", ',', '<'),
    printed(52, "AB09", '.', '>'), printed(53, "AB10", '/', '?'),
];

/// All other keys. Keysym numbers are those of X11's keysymdef.h and XF86keysym.h.
#[rustfmt::skip]
pub(crate) const OTHERS: &[Key] = &[
    printed(57, "SPCE", ' ', ' '),
    key(1, "ESC", 0xff1b), key(14, "BKSP", 0xff08), both(TAB, "TAB", 0xff09, 0xfe20), key(RETURN, "RTRN", 0xff0d),
    SPARE_PRINTED,
    // Modifiers: Shift, Control, Alt and Super on both sides, the level-three shift, and the locks.
    key(LEFT_SHIFT, "LFSH", 0xffe1), key(54, "RTSH", 0xffe2), key(LEFT_CTRL, "LCTL", 0xffe3), key(97, "RCTL", 0xffe4),
    key(LEFT_ALT, "LALT", 0xffe9), key(LEFT_SUPER, "LWIN", 0xffeb), key(126, "RWIN", 0xffec),
    key(100, "LVL3", 0xfe03), key(58, "CAPS", 0xffe5), key(69, "NMLK", 0xff7f), key(70, "SCLK", 0xff14),
    // F1 to F12, F13 to F24
    key(59, "FK01", 0xffbe), key(60, "FK02", 0xffbf), key(61, "FK03", 0xffc0), key(62, "FK04", 0xffc1),
    key(63, "FK05", 0xffc2), key(64, "FK06", 0xffc3), key(65, "FK07", 0xffc4), key(66, "FK08", 0xffc5),
    key(67, "FK09", 0xffc6), key(68, "FK10", 0xffc7), key(87, "FK11", 0xffc8), key(88, "FK12", 0xffc9),
    key(183, "FK13", 0xffca), key(184, "FK14", 0xffcb), key(185, "FK15", 0xffcc), key(186, "FK16", 0xffcd),
    key(187, "FK17", 0xffce), key(188, "FK18", 0xffcf), key(189, "FK19", 0xffd0), key(190, "FK20", 0xffd1),
    key(191, "FK21", 0xffd2), key(192, "FK22", 0xffd3), key(193, "FK23", 0xffd4), SPARE_OTHER,
    // Navigation: Home, Up, Prior, Left, Right, End, Down, Next, Insert, Delete, Print, Pause, Menu
    key(102, "HOME", 0xff50), key(103, "UP", 0xff52), key(104, "PGUP", 0xff55), key(105, "LEFT", 0xff51),
    key(106, "RGHT", 0xff53), key(107, "END", 0xff57), key(108, "DOWN", 0xff54), key(109, "PGDN", 0xff56),
    key(110, "INS", 0xff63), key(111, "DELE", 0xffff), both(99, "PRSC", 0xff61, 0xff15), both(119, "PAUS", 0xff13, 0xff6b),
    key(127, "COMP", 0xff67), key(138, "HELP", 0xff6a), key(128, "STOP", 0xff69), key(129, "AGAI", 0xff66),
    key(131, "UNDO", 0xff65), key(136, "FIND", 0xff68),
    // The keypad prints digits without NumLock: its keys are asked for by name.
    key(71, "KP7", 0xffb7), key(72, "KP8", 0xffb8), key(73, "KP9", 0xffb9), key(74, "KPSU", 0xffad),
    key(75, "KP4", 0xffb4), key(76, "KP5", 0xffb5), key(77, "KP6", 0xffb6), key(78, "KPAD", 0xffab),
    key(79, "KP1", 0xffb1), key(80, "KP2", 0xffb2), key(81, "KP3", 0xffb3), key(82, "KP0", 0xffb0),
    key(83, "KPDL", 0xffae), key(96, "KPEN", 0xff8d), key(98, "KPDV", 0xffaf), key(55, "KPMU", 0xffaa),
    key(117, "KPEQ", 0xffbd), key(121, "KPSP", 0xffac),
    // XF86: mute, volume down and up, power, calculator, mail, favorites, back, forward, eject
    key(113, "MUTE", 0x1008_ff12), key(114, "VOLD", 0x1008_ff11), key(115, "VOLU", 0x1008_ff13),
    key(116, "POWR", 0x1008_ff2a), key(140, "I148", 0x1008_ff1d), key(155, "I163", 0x1008_ff19),
    key(156, "I164", 0x1008_ff30), key(158, "I166", 0x1008_ff26), key(159, "I167", 0x1008_ff27), key(161, "I169", 0x1008_ff2c),
    // next, play (pause with Shift), previous, stop, record, rewind, home page, refresh
    key(163, "I171", 0x1008_ff17), both(164, "I172", 0x1008_ff14, 0x1008_ff31), key(165, "I173", 0x1008_ff16),
    key(166, "I174", 0x1008_ff15), key(167, "I175", 0x1008_ff1c), key(168, "I176", 0x1008_ff3e), key(172, "I180", 0x1008_ff18),
    key(173, "I181", 0x1008_ff29),
    // copy, open, paste, cut; search, explorer, sleep, wake up, www, tools
    key(133, "COPY", 0x1008_ff57), key(134, "OPEN", 0x1008_ff6b), key(135, "PAST", 0x1008_ff6d), key(137, "CUT", 0x1008_ff58),
    key(217, "I225", 0x1008_ff1b), key(144, "I152", 0x1008_ff5d), key(142, "I150", 0x1008_ff2f), key(143, "I151", 0x1008_ff2b),
    key(150, "I158", 0x1008_ff2e), key(171, "I179", 0x1008_ff81),
    // brightness down and up, keyboard light toggle, down, up, display
    key(224, "I232", 0x1008_ff03), key(225, "I233", 0x1008_ff02), key(228, "I236", 0x1008_ff04), key(229, "I237", 0x1008_ff06),
    key(230, "I238", 0x1008_ff05), key(227, "I235", 0x1008_ff59),
];

/// Other names that mean a key of the table: Alt_R, Meta_L, Meta_R, Linefeed.
pub(crate) const ALIASES: &[(u32, u32)] = &[
    (0xffea, LEFT_ALT),
    (0xffe7, LEFT_ALT),
    (0xffe8, LEFT_ALT),
    (0xff0a, RETURN),
];

/// Every key, the printed ones first.
pub(crate) fn keys() -> impl Iterator<Item = &'static Key> {
    PRINTED.iter().chain(OTHERS)
}
