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
    /// A reservation in the log takes room that is not there.
    ReserveIgnoresRoom,
    /// A reservation in the log does not acquire the room.
    ReserveRelaxed,
    /// The log's room is given back without release.
    RetireRelaxed,
    /// Giving back the log's room wakes nobody.
    RetireForgetsWake,
    /// A thread parks for room in the log without looking whether it came.
    RoomParkWithoutRecheck,
    /// Marking a record copied does not release.
    CopiedRelaxed,
    /// The flusher does not acquire the marks.
    CopiedEndRelaxed,
    /// Marking a record applied does not release.
    AppliedRelaxed,
    /// Marking a record applied has no fence.
    AppliedWithoutFence,
    /// Who moves `visible` does not acquire the marks.
    HelpRelaxed,
    /// Who moves `visible` does not look at it again where it finds the mark of another record.
    HelpWithoutReload,
    /// Moving `visible` does not release.
    HelpPublishesRelaxed,
    /// `visible` is loaded with Relaxed.
    VisibleRelaxed,
    /// Registering a snapshot has no fence.
    RegisterWithoutFence,
    /// A snapshot has its lsn before its slot says that there is one. Of the model.
    RegisterReadsFirst,
    /// Releasing a snapshot does not release.
    SnapshotReleaseRelaxed,
    /// Ending a snapshot ends whatever is in its slot.
    EndIgnoresGeneration,
    /// An ended reader looks for that without a fence.
    IsEndedWithoutFence,
    /// The scan of the snapshots has no fence before it.
    HorizonWithoutFence,
    /// The scan of the snapshots loads the upper bound behind it. Of the model.
    HorizonUpperLast,
    /// The scan of the snapshots does not acquire.
    HorizonRelaxed,
    /// The scan of the snapshots passes over those that have no lsn yet.
    HorizonIgnoresPending,
    /// The scan of the snapshots has no fence behind it.
    HorizonWithoutReleaseFence,
    /// The listing of snapshots has no fence before its second look.
    EachWithoutFence,
    /// A committer leaves the gate before it applies. Of the model.
    ApplyOutsideGate,
    /// A committer looks for conflicts before it has the stripe. Of the model.
    CheckBeforeStripe,
    /// A committer reserves its lsn before it has the stripe. Of the model.
    ReserveBeforeStripe,
    /// A serializable committer validates without waiting for those before it. Of the model.
    ValidateWithoutWait,
    /// A serializable committer validates before it reserves its lsn. Of the model.
    ValidateBeforeReserve,
    /// A metadata lock's word is counted up though it is obtrusive.
    TakeIgnoresObtrusive,
    /// Counting a metadata lock's word up does not acquire.
    TakeRelaxed,
    /// Counting a metadata lock's word down does not release.
    GiveBackRelaxed,
    /// Counting a metadata lock's word down tells nobody.
    GiveBackForgetsWake,
    /// Marking a metadata lock obtrusive has no fence.
    ObtrusiveWithoutFence,
    /// Marking a metadata lock not obtrusive does not release.
    ClearObtrusiveRelaxed,
    /// An obtrusive request for a metadata lock does not look at the counts.
    RequestIgnoresCounts,
    /// Releasing a listed metadata lock wakes nobody.
    ReleaseListedForgetsWake,
    /// The victim of a deadlock is not woken.
    DoomForgetsWake,
    /// Using a lease has no fence.
    LeaseWithoutFence,
    /// Using a lease does not look whether its locks are obtrusive.
    LeaseIgnoresObtrusive,
    /// Using a lease does not release what an earlier use did.
    LeaseBeginRelaxed,
    /// Leaving a lease does not release.
    LeaseLeaveRelaxed,
    /// A writer reads a namespace's state before its lease is in use. Of the model.
    StateBeforeLease,
    /// A namespace's state is changed without its lock. Of the model.
    StateWithoutLock,
}
