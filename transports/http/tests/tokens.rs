//! The token file.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use deskhand_http::tokens::TokenError;
use deskhand_http::{Doors, Tokens};

#[test]
fn made_once_then_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    assert!(matches!(Tokens::load(&path), Err(TokenError::Io { .. })));
    let tokens = Tokens::load_or_create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let first = tokens.token("default").unwrap();
    assert!(first.expose().starts_with("dh_") && first.expose().len() == 3 + 43);
    assert_eq!(Tokens::load_or_create(&path).unwrap().token("default"), Some(first.clone()));
    let second = tokens.add("laptop").unwrap();
    assert_ne!(first, second);
    assert_eq!(tokens.names(), ["default", "laptop"]);
    assert!(matches!(tokens.add("laptop"), Err(TokenError::Taken(_))));
    for bad in ["", "A", "a b", "a\nb", "ä", &"a".repeat(33)] {
        assert!(matches!(tokens.add(bad), Err(TokenError::Name)), "{bad:?}");
    }
    tokens.remove("default").unwrap();
    assert!(matches!(tokens.remove("default"), Err(TokenError::Missing(_))));
    assert_eq!(Tokens::load(&path).unwrap().names(), ["laptop"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn at_a_first_start_there_is_no_folder_either() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config/deskhand/tokens");
    assert!(Tokens::load_or_create(&path).unwrap().token("default").is_some());
    for folder in ["config", "config/deskhand"] {
        assert_eq!(fs::metadata(home.path().join(folder)).unwrap().permissions().mode() & 0o777, 0o700, "{folder}");
    }
}

#[test]
fn many_at_once_lose_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let path = &path;
            scope.spawn(move || Tokens::load_or_create(path).unwrap().add(&format!("t{number}")).unwrap());
        }
    });
    assert_eq!(Tokens::load(&path).unwrap().names().len(), 9);
}

#[test]
fn what_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    Tokens::load_or_create(&path).unwrap();
    for mode in [0o640, 0o604, 0o660, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = Tokens::load(&path).unwrap_err();
        assert!(matches!(error, TokenError::Open { .. }) && error.to_string().contains("chmod 600"), "{error}");
    }
    assert!(matches!(Tokens::load(folder.path()), Err(TokenError::Io { .. })));
}

#[test]
fn bad_lines_are_told_without_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let secret = "dh_0123456789abcdefghij";
    let twice = [format!("a {secret}\na {secret}2"), format!("a {secret}\nb {secret}")];
    for bad in [format!("{secret}\n"), format!("a {secret} x"), format!("A {secret}"), "a short".into()].into_iter().chain(twice) {
        fs::write(&path, &bad).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = Tokens::load(&path).unwrap_err();
        assert!(matches!(error, TokenError::Line { .. }), "{bad:?}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("0123456789"), "{error}");
    }
    fs::write(&path, format!("# mine\n\n  a   {secret}  \r\n")).unwrap();
    assert_eq!(Tokens::load(&path).unwrap().token("a").unwrap().expose(), secret);
}

#[test]
fn printing_tells_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::load_or_create(&folder.path().join("tokens")).unwrap();
    let token = tokens.token("default").unwrap();
    let doors = Doors { tokens: Some(tokens), ..Doors::default() };
    let printed = format!("{token:?} {doors:?} {:#?}", doors.tokens);
    assert!(!printed.contains(&token.expose()[3..10]), "{printed}");
}
