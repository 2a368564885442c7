package electionhttp

import (
	"context"
	"fmt"
	"os"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/local"
)

// ServeLocal lets the commands "elect pause NAME", "resume" and "resign" reach this
// process, in any election that m has joined. They use a unix socket and not the store, so
// they work while the store is away. pause and resign are answered when the lead function
// has returned and the lease is released.
//
// path is the socket's file. ServeLocal makes its directory with mode 0700 if it does not
// exist. An empty path selects the file that elect finds by itself: PID.sock in elect's own
// directory below XDG_RUNTIME_DIR, otherwise below /run (root) or the directory for
// temporary files. That directory must belong to this user alone. The socket has mode 0600:
// a user who can open it could end the process as well. Use another path for a second
// manager in the process, or for a container's volume, with "elect pause NAME --socket
// PATH".
//
// ServeLocal blocks until ctx ends or m is closed; then it removes the socket and returns
// nil. It returns an error if it cannot begin, for example because another process serves
// the socket, or cannot continue. Neither affects the elections. ServeLocal does not work on
// Windows.
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

// embedded answers for a program that embeds a manager.
type embedded struct{ m *election.Manager }

func (p embedded) States() []local.State {
	status := p.m.Status()
	list := make([]local.State, 0, len(status.Elections)) // not nil: in JSON that is null
	for _, e := range status.Elections {
		s := local.State{Election: e.Election, ID: status.ID, PID: os.Getpid(), Paused: e.Paused}
		if joined := p.m.Election(e.Election); joined != nil {
			if lead := joined.Leadership(); lead != nil {
				s.Leading, s.Term = true, lead.Term
			}
		}
		list = append(list, s)
	}
	return list
}

func (p embedded) Do(ctx context.Context, name, verb string) error {
	e := p.m.Election(name)
	switch {
	case e == nil:
		return fmt.Errorf("this process has left %q", name)
	case verb == "resume":
		e.Resume()
		return nil
	case verb == "pause":
		e.Pause()
	}
	return e.Resign(ctx) // after a pause it waits until the process has stepped down
}
