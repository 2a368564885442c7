// Package resourcelock lets client-go's leader election, and so the manager of
// controller-runtime, elect through any store of this module: MySQL, PostgreSQL, Redis, etcd, …
// A [Lock] implements the interface of the package of the same name in client-go.
//
//	lock, err := resourcelock.New(m, "billing/controller") // m: an election.Manager
//	t := lock.Timings()
//	mgr, err := manager.New(restConfig, manager.Options{
//		LeaderElection: true, LeaderElectionResourceLockInterface: lock,
//		LeaseDuration: &t.LeaseDuration, RenewDeadline: &t.RenewDeadline, RetryPeriod: &t.RetryPeriod,
//	})
//	err = mgr.Start(ctx)
//	if err == nil { // all work has ended
//		err = m.Close(context.Background()) // releases the lease
//	}
//
// With client-go alone, the same Lock and timings go into a leaderelection.LeaderElectionConfig.
//
// # Why two members never lead
//
// The lease belongs to the manager m. The member of client-go (the elector) leads on loan. It
// believes that it leads from an Update that succeeds until RetryPeriod + RenewDeadline after the
// last such Update: it sleeps for the one, then retries for the other, then cancels its context.
// An Update makes no call of the store. It succeeds only if m leads and
//
//	Leadership.Remaining() >= RetryPeriod + RenewDeadline + RetryPeriod
//
// The last RetryPeriod is a reserve for a busy machine. So, renewed or not, the elector has
// stopped before m's own deadline, and that is Options.ClockMargin before another process can
// lead. If the leadership ends earlier, in order, m keeps the lease for that same time.
//
// Timings that differ from the lock's would break this. An Update that shows another LeaseDuration fails. No
// elector can have forgotten one of the three: the default of controller-runtime does not fit the others.
//
// # When the lease is released
//
// An elector gives its lease up before it cancels the context of OnStartedLeading, and never waits for that
// function. So giving up releases nothing here; ReleaseOnCancel has no effect. The lock cannot know when the
// work has ended. It keeps the lease until Manager.Close or Election.Leave, at most one TTL after the last
// Update. Close the manager when the work has ended: after Start has returned nil. If Start returns an error,
// work may go on: exit at once, without Close, and the lease expires.
//
// # Limits
//
// One Lock serves one elector; it may run again. The lock campaigns only while its elector asks. A manager
// with a RenewEvery above 73 % of its TTL has too little left to lend: its elector stops before each renewal.
// The coordinated election of Kubernetes (Coordinated) never elects through a Lock. A machine that was
// suspended, or a process that was stopped, may believe in its leadership for one RenewDeadline longer, as
// any timer does; Election.Leading is right at once, and the term fences writes: see [Lock.Election]. After
// an edit of the store by hand another process can lead up to the same time before the elector has stopped.
package resourcelock
