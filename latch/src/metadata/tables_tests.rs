//! The table of kinds against its definition, written out another way: by what a holder does, and what it
//! cannot stand others to do.

use super::kind::{Class, Kind, ScopeKind, TreeKind};

const SCOPE: [ScopeKind; 3] = [ScopeKind::Ix, ScopeKind::S, ScopeKind::X];
const TREE: [TreeKind; 5] = [TreeKind::Sr, TreeKind::Sw, TreeKind::Su, TreeKind::Snw, TreeKind::X];

fn kinds() -> Vec<Kind> {
    SCOPE.iter().map(|&kind| Kind::from(kind)).chain(TREE.iter().map(|&kind| kind.into())).collect()
}

/// What a holder does, and what nobody else may do beside it.
fn definition(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        Kind::Scope(ScopeKind::Ix) => (&["use"], &["freeze", "alter"]),
        Kind::Scope(ScopeKind::S) => (&["freeze"], &["use", "alter"]),
        Kind::Scope(ScopeKind::X) => (&["alter"], &["use", "freeze", "alter"]),
        Kind::Tree(TreeKind::Sr) => (&["read"], &["alone"]),
        Kind::Tree(TreeKind::Sw) => (&["read", "write"], &["alone"]),
        Kind::Tree(TreeKind::Su) => (&["read", "may upgrade"], &["may upgrade", "alone"]),
        Kind::Tree(TreeKind::Snw) => (&["read", "may upgrade"], &["write", "may upgrade", "alone"]),
        Kind::Tree(TreeKind::X) => {
            (&["read", "write", "alone"], &["read", "write", "may upgrade", "alone"])
        }
    }
}

fn goes_by_definition(a: Kind, b: Kind) -> bool {
    let forbids = |forbidding: Kind, doing: Kind| {
        let (does, _) = definition(doing);
        let (_, forbidden) = definition(forbidding);
        does.iter().any(|what| forbidden.contains(what))
    };
    a.class() == b.class() && !forbids(a, b) && !forbids(b, a)
}

#[test]
fn kinds_go_together_as_their_definition_says() {
    for a in kinds() {
        for b in kinds() {
            assert_eq!(a.goes_with(b), goes_by_definition(a, b), "{a} and {b}");
            assert_eq!(a.goes_with(b), b.goes_with(a), "{a} and {b}, the other way round");
        }
    }
}

#[test]
fn the_unobtrusive_kinds_are_those_that_go_with_each_other_and_themselves() {
    for class in [Class::Scope, Class::Tree] {
        let of_class: Vec<Kind> =
            kinds().into_iter().filter(|kind| kind.class() == class).collect();
        let unobtrusive: Vec<Kind> =
            of_class.iter().copied().filter(|kind| !kind.is_obtrusive()).collect();
        assert!(unobtrusive.iter().all(|a| unobtrusive.iter().all(|b| a.goes_with(*b))));
        assert_eq!(unobtrusive.len(), if class == Class::Scope { 1 } else { 2 });
    }
}

#[test]
fn a_kind_covers_those_that_it_excludes_as_much_as() {
    for held in kinds() {
        for wanted in kinds() {
            let excludes_as_much =
                kinds().into_iter().filter(|other| other.class() == held.class());
            let excludes_as_much = held.class() == wanted.class()
                && excludes_as_much
                    .filter(|other| goes_by_definition(held, *other))
                    .all(|other| goes_by_definition(wanted, other));
            assert_eq!(held.covers(wanted), excludes_as_much, "{held} over {wanted}");
        }
    }
    let covers = |held: TreeKind, wanted: TreeKind| Kind::from(held).covers(wanted.into());
    assert!(covers(TreeKind::X, TreeKind::Su) && covers(TreeKind::X, TreeKind::Snw));
    assert!(covers(TreeKind::Sw, TreeKind::Sr) && !covers(TreeKind::Sr, TreeKind::Su));
}
