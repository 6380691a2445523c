//! What a model can leave out of a protocol, to show that it would notice.

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One fence, ordering or check that a run of a loom model leaves out. Each has a model that must
        /// then fail.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Mutant {
            /// Nothing is left out.
            None,
            $($(#[$doc])* $name,)*
        }

        impl Mutant {
            /// All but [`Mutant::None`].
            pub const ALL: &[Mutant] = &[$(Mutant::$name,)*];
        }
    };
}

mutants! {
    /// Optimistic begin loads with Relaxed.
    BeginRelaxed,
    /// Validation has no fence and loads with Acquire instead.
    ValidateByAcquireLoad,
    /// Taking X has no fence behind its CAS.
    ExclusiveWithoutFence,
    /// Taking X does not acquire.
    ExclusiveRelaxed,
    /// Releasing X does not release.
    ReleaseRelaxed,
    /// Releasing X does not look for parked threads.
    ReleaseForgetsWake,
    /// Clean release of X moves the version.
    CleanReleaseMovesVersion,
    /// Clean release of X does not release.
    CleanReleaseRelaxed,
    /// Clean release of X does not look for parked threads.
    CleanReleaseForgetsWake,
    /// X -> S does not release.
    DowngradeRelaxed,
    /// X -> S does not look for parked threads.
    DowngradeForgetsWake,
    /// Releasing S does not release.
    SharedReleaseRelaxed,
    /// Releasing S does not look for parked threads.
    SharedReleaseForgetsWake,
    /// Optimistic -> S does not compare the version.
    SharedAtIgnoresVersion,
    /// Optimistic -> X does not compare the version.
    UpgradeIgnoresVersion,
    /// Optimistic -> X does not wait for shared holders.
    UpgradeIgnoresShared,
    /// A thread parks without looking whether the word is still held.
    ParkWithoutRecheck,
    /// A miss in the page hash is believed without validation.
    MissWithoutValidation,
    /// Insertion into the page hash does not look for the page.
    InsertWithoutSearch,
    /// A frame's ident is read before the read of the frame begins.
    IdentBeforeBegin,
    /// The ident of a frame found by the hash is not compared.
    LookupIgnoresIdent,
    /// Eviction keeps the frame's version.
    EvictKeepsVersion,
    /// A hint is repaired by a bare CAS, without the parent's latch.
    RepairBareCas,
    /// Entering the gate has no fence.
    EnterWithoutFence,
    /// Closing the gate has no fence.
    CloseWithoutFence,
    /// Entering does not look whether the gate is closed.
    EnterIgnoresClosed,
    /// Leaving the gate does not release.
    LeaveRelaxed,
    /// Opening the gate does not release.
    OpenRelaxed,
    /// A thread parks at the gate without looking whether it is still closed.
    GateParkWithoutRecheck,
    /// Opening the gate wakes nobody.
    OpenForgetsWake,
}
