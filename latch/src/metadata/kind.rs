//! The kinds of metadata locks, and which go with which.
//!
//! ```text
//!           IX   S   X                 SR  SW  SU  SNW  X
//!     IX    +    -   -           SR    +   +   +   +    -
//!     S     -    +   -           SW    +   +   +   -    -
//!     X     -    -   -           SU    +   +   -   -    -
//!                                SNW   +   -   -   -    -
//!                                X     -   -   -   -    -
//! ```
//!
//! What it is not: an order. Which of two kinds is *stronger* follows from the tables: the one that nothing
//! goes with that does not go with the other too.
//!
//! Tested in `tables_tests.rs` against what each kind lets its holder, and others, do.

use std::fmt;

/// Kinds of locks of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScopeKind {
    /// Use a tree of it. Unobtrusive.
    Ix,
    /// Freeze its definitions.
    S,
    /// Change its state, or drop it.
    X,
}

/// Kinds of locks of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeKind {
    /// Read. Unobtrusive.
    Sr,
    /// Write. Unobtrusive.
    Sw,
    /// Look, and perhaps take X later.
    Su,
    /// Read, while nobody writes.
    Snw,
    /// Alone.
    X,
}

/// A kind, of either class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Of a namespace.
    Scope(ScopeKind),
    /// Of a tree.
    Tree(TreeKind),
}

/// What a lock is of: it takes the kinds of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A namespace.
    Scope,
    /// A tree.
    Tree,
}

/// A row for each kind of a class, a bit for each kind that goes with it.
const SCOPE_ROWS: [u8; 3] = [0b001, 0b010, 0b000];
/// As [`SCOPE_ROWS`].
const TREE_ROWS: [u8; 5] = [0b01111, 0b00111, 0b00011, 0b00001, 0b00000];

impl Kind {
    /// The class of locks that take this kind.
    #[inline]
    pub const fn class(self) -> Class {
        match self {
            Kind::Scope(_) => Class::Scope,
            Kind::Tree(_) => Class::Tree,
        }
    }

    /// Whether two owners may have one lock in these kinds. Kinds of two classes never meet; false.
    pub const fn goes_with(self, other: Kind) -> bool {
        match (self, other) {
            (Kind::Scope(_), Kind::Scope(_)) | (Kind::Tree(_), Kind::Tree(_)) => {
                self.row() >> other.index() & 1 == 1
            }
            _ => false,
        }
    }

    /// Whether who has this kind needs no lock to do what `other` lets do: all that goes with this kind goes
    /// with the other.
    pub fn covers(self, other: Kind) -> bool {
        self.class() == other.class() && self.row() & !other.row() == 0
    }

    /// Whether the kind is none of IX, SR, SW, which all go with each other.
    #[inline]
    pub const fn is_obtrusive(self) -> bool {
        !matches!(self, Kind::Scope(ScopeKind::Ix) | Kind::Tree(TreeKind::Sr | TreeKind::Sw))
    }

    const fn index(self) -> usize {
        match self {
            Kind::Scope(kind) => kind as usize,
            Kind::Tree(kind) => kind as usize,
        }
    }

    const fn row(self) -> u8 {
        match self {
            Kind::Scope(_) => SCOPE_ROWS[self.index()],
            Kind::Tree(_) => TREE_ROWS[self.index()],
        }
    }
}

impl From<ScopeKind> for Kind {
    fn from(kind: ScopeKind) -> Kind {
        Kind::Scope(kind)
    }
}

impl From<TreeKind> for Kind {
    fn from(kind: TreeKind) -> Kind {
        Kind::Tree(kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Scope(ScopeKind::Ix) => "IX of a namespace",
            Kind::Scope(ScopeKind::S) => "S of a namespace",
            Kind::Scope(ScopeKind::X) => "X of a namespace",
            Kind::Tree(TreeKind::Sr) => "SR of a tree",
            Kind::Tree(TreeKind::Sw) => "SW of a tree",
            Kind::Tree(TreeKind::Su) => "SU of a tree",
            Kind::Tree(TreeKind::Snw) => "SNW of a tree",
            Kind::Tree(TreeKind::X) => "X of a tree",
        })
    }
}
