package electionhttp

import (
	"context"
	"fmt"
	"os"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/local"
)

// ServeLocal lets the commands "elect pause NAME", "resume" and "resign" reach this
// process, in any election that m has joined. They speak to it through a unix socket and
// never through the store, so they work while that is away. pause and resign are answered
// when the lead function has returned and the lease is released.
//
// path is where the socket is; its directory is made if it is not there, with mode 0700.
// "" is where elect looks by itself: PID.sock in elect's own directory below
// XDG_RUNTIME_DIR, else /run (root) or the directory for temporary files. That one must
// be this user's alone. The socket has mode 0600: who can open it could end the process
// as well. Another path is for a second manager of the process, or for a container's
// volume; then say "elect pause NAME --socket PATH".
//
// It blocks until ctx ends or m is closed, then removes the socket and returns nil. An
// error means that it could not begin, as when another process serves that socket, or
// could not go on. The elections are not touched by either. Not on Windows.
//
//	go func() {
//		if err := electionhttp.ServeLocal(ctx, m, ""); err != nil {
//			log.Print(err)
//		}
//	}()
func ServeLocal(ctx context.Context, m *election.Manager, path string) error {
	s, err := local.Serve(path, embedded{m})
	if err != nil {
		return fmt.Errorf("electionhttp: %w", err)
	}
	defer s.Close()
	select {
	case <-ctx.Done():
		return nil
	case <-m.Done():
		return nil
	case err := <-s.Ended():
		return fmt.Errorf("electionhttp: %s: %w", s.Path, err)
	}
}

// embedded is a program that has a manager of its own.
type embedded struct{ m *election.Manager }

func (p embedded) States() []local.State {
	status := p.m.Status()
	list := make([]local.State, 0, len(status.Elections)) // not nil: in JSON that is null
	for _, e := range status.Elections {
		s := local.State{Election: e.Election, ID: status.ID, PID: os.Getpid(), Paused: e.Paused}
		if shell := p.m.Election(e.Election); shell != nil {
			if lead := shell.Leadership(); lead != nil {
				s.Leading, s.Term = true, lead.Term
			}
		}
		list = append(list, s)
	}
	return list
}

func (p embedded) Do(ctx context.Context, name, what string) error {
	e := p.m.Election(name)
	switch {
	case e == nil:
		return fmt.Errorf("this process has left %q", name)
	case what == "resume":
		e.Resume()
		return nil
	case what == "pause":
		e.Pause()
	}
	return e.Resign(ctx) // also waits until a pause is carried out
}
