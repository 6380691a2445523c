//! Proving who one is.

use super::*;

fn login(house: &House, name: &str, password: &[u8]) -> Result<AccountId> {
    house.accounts.login(&house.db, name, password).map(|identity| identity.id)
}

#[test]
fn whatever_is_wrong_with_a_login_is_one_error_of_one_text() {
    let house = House::new();
    house.role("staff");
    house.user("ada");
    let long = vec![b'x'; 2000];
    let wrong: [(&str, &[u8]); 10] = [
        ("root", b"correct hors"),
        ("root", b""),
        ("root", &long),
        ("ada", b"correct horse "),
        ("Ada", PASSWORD),
        ("nobody", PASSWORD),
        ("staff", PASSWORD),
        ("", PASSWORD),
        ("a/b\0,", PASSWORD),
        (&"n".repeat(5000), PASSWORD),
    ];
    for (name, password) in wrong {
        let error = login(&house, name, password).expect_err("wrong");
        assert!(matches!(error, Error::Denied(Denied::Login)), "{name:?}: {error:?}");
        assert_eq!(error.to_string(), "wrong name or password");
    }
    let identity = house.accounts.login(&house.db, "ada", PASSWORD).expect("right");
    assert_eq!((identity.name.as_str(), identity.id), ("ada", house.id("ada")));
}

#[test]
fn a_database_without_accounts_says_so() {
    let machine = SimMachine::new(1);
    let db = open(&machine);
    let accounts = Accounts::new(AccountsOptions::default());
    misused(accounts.login(&db, "root", PASSWORD), Usage::NoAccounts);
    assert!(accounts.directory(&db).expect("readable").is_empty());
    assert!(db.system_trees().expect("readable").is_empty(), "looking creates nothing");
}

#[test]
fn the_fifth_failure_of_a_name_locks_it_whether_it_is_an_account_or_not() {
    let house = House::new();
    house.role("staff");
    let locked = |seconds| Denied::LoginLocked { retry_after: Duration::from_secs(seconds) };
    for name in ["root", "nobody", "staff", "no/name"] {
        for _ in 0..5 {
            denied(login(&house, name, b"wrong"), Denied::Login);
        }
        denied(login(&house, name, b"wrong"), locked(1));
        // The right password is not looked at either.
        denied(login(&house, name, PASSWORD), locked(1));
    }
    house.pass(Duration::from_secs(1));
    for name in ["root", "nobody", "staff", "no/name"] {
        denied(login(&house, name, b"wrong"), Denied::Login);
        denied(login(&house, name, PASSWORD), locked(2));
    }
    house.pass(Duration::from_secs(2));
    login(&house, "root", PASSWORD).expect("right, and in time");
    denied(login(&house, "root", b"wrong"), Denied::Login);
    login(&house, "root", PASSWORD).expect("the failures before are forgotten");
}

#[test]
fn many_at_once_get_no_more_guesses_than_one_after_the_other() {
    let house = House::new();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..12).map(|_| scope.spawn(|| login(&house, "root", b"wrong"))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let looked_at =
        outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::Denied(Denied::Login))));
    assert_eq!(looked_at.count(), 5, "{outcomes:?}");
}

#[test]
fn a_login_for_a_name_that_is_not_there_costs_a_hash_like_any_other() {
    let house = House::new();
    let directory = house.accounts.directory(&house.db).expect("whole");
    // Always the same hash for the same name, as for a user.
    for number in [0, 1, u64::MAX] {
        let hash = directory.any_hash(number).expect("there is a user");
        assert_eq!(Some(hash), directory.any_hash(number));
        assert!(hash.verify(PASSWORD).expect("memory"));
    }
    // Even so the password of the one whose hash stands in opens nothing.
    denied(login(&house, "nobody", PASSWORD), Denied::Login);
}

#[test]
fn no_secret_is_in_any_debug_output() {
    let house = House::new();
    let directory = house.accounts.directory(&house.db).expect("whole");
    let shown = format!("{:?} {:?} {:?}", house.accounts, directory, directory.list());
    let hash = directory.any_hash(0).expect("there is a user").as_str();
    let secret = hash.rsplit('$').next().expect("a hash");
    assert!(!shown.contains(secret) && !shown.contains("correct horse"));
}
