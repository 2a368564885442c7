package mutants

import "testing"

func ends(tests string) check { return check{"./electionguard", "^(" + tests + ")$", nil} }

func TestEachBrokenGuardIsFound(t *testing.T) { tryAll(t, "../electionguard/", guardMutants) }

var guardMutants = []mutant{
	{"a closed pipe is an end", "main_linux.go",
		"	ended, err = await(pidFile, pollIn, expired)\n",
		"	ended = true\n", "its pipe was closed: the guard has released", ends("TestWhatLivesOnHasNotEnded")},
	{"children do not hold the pipe", "main_linux.go",
		"	if ended {",
		"	if false {", "a child lives on: the guard has released", ends("TestWhatLivesOnHasNotEnded")},
	{"the lifeline can be replaced", "main_linux.go",
		"const lifelineNumber = 4000",
		"const lifelineNumber = 5", "files lives on: the guard has released", ends("TestWhatLivesOnHasNotEnded")},
	{"a guard waits for ever", "main_linux.go",
		"time.Now().Add(h.ttl)",
		"time.Now().Add(time.Hour)", "TestAGuardWaitsNoLongerThanTheLeasesLast", ends("TestAGuardWaitsNoLongerThanTheLeasesLast")},
	{"the pipes of other guards are kept", "main_linux.go",
		"	if err := closeInherited(); err != nil {",
		"	if err := error(nil); err != nil {", "TestTwoGuardsDoNotWaitForEachOther", ends("TestTwoGuardsDoNotWaitForEachOther")},
	{"what was released is released again", "holdings.go",
		"	delete(h.terms, r.Released)\n",
		"", "want \"for 0123456789abcdef: jobs/7", ends("TestTheEndOfTheProgramReleases")},
	{"any term is released", "holdings.go",
		"Term: h.terms[name],",
		"Term: 0,", "want \"for 0123456789abcdef: jobs/7", ends("TestTheEndOfTheProgramReleases")},
	{"a crash counts as a resignation", "holdings.go",
		"End: backend.Failed,",
		"End: backend.Released,", "want \"for 0123456789abcdef: jobs/7 failed", ends("TestTheEndOfTheProgramReleases")},
	{"an orderly end releases", "holdings.go",
		"	h.ended = h.ended || r.End\n",
		"", "TestAClosedGuardEndsAndReleasesNothing", ends("TestAClosedGuardEndsAndReleasesNothing")},
	{"the grace is not waited for", "main_linux.go",
		"	time.Sleep(h.grace)\n",
		"", "the grace has not passed: the guard has released", ends("TestWhatLivesOnHasNotEnded")},
	{"signals to all end the guard", "main_linux.go",
		"	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE,\n		syscall.SIGUSR1, syscall.SIGUSR2)\n",
		"	signal.Ignore(syscall.SIGPIPE)\n", "TestAGuardOutlivesSignalsToAll", ends("TestAGuardOutlivesSignalsToAll")},
}
