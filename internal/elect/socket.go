package elect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/local"
)

// callSocket makes one request to a socket and decodes the answer.
func callSocket(ctx context.Context, path, method, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://elect"+url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, clean.Text(strings.TrimSpace(string(text)), 300, false))
	}
	return json.Unmarshal(text, into)
}

// findProcess finds the one process of this user on this machine that takes part in an election.
// A process that does not answer is an error, because it may be the one the user means.
func findProcess(ctx context.Context, socket, name string, pid int) (path string, s local.State, err error) {
	paths := []string{socket}
	if socket == "" {
		dir, err := local.Dir()
		if err != nil {
			return "", s, err
		}
		paths, _ = filepath.Glob(filepath.Join(dir, "*.sock"))
		if pid != 0 {
			paths = []string{filepath.Join(dir, fmt.Sprintf("%d.sock", pid))}
		}
	}
	var found []local.State
	for _, p := range paths {
		var states []local.State
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := callSocket(ctx, p, "GET", "/elections?election="+url.QueryEscape(name), &states)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return "", s, fmt.Errorf("the process of socket %s does not answer; name a process with --pid: %w", p, err)
		case err != nil && socket != "":
			return "", s, err
		}
		for _, st := range states {
			if st.Election == name && (pid == 0 || pid == st.PID) {
				path, found = p, append(found, st)
			}
		}
	}
	switch len(found) {
	case 1:
		return path, found[0], nil
	case 0:
		return "", s, fmt.Errorf("no process of this user on this machine takes part in %q and has a socket: elect run makes one, and a program by electionhttp.ServeLocal", name)
	}
	text := ""
	for _, st := range found {
		text += fmt.Sprintf("\n  --pid %d  %q, leading: %v", st.PID, clean.Text(st.ID, backend.MaxID, false), st.Leading)
	}
	return "", s, fmt.Errorf("%d processes take part in %q; name one of them:%s", len(found), name, text)
}

// actionText says what an action will do to a process, and how long that takes at most.
func actionText(s local.State, action string) string {
	verb := map[bool]string{true: "leads", false: "does not lead"}[s.Leading]
	text := fmt.Sprintf("Process %d, %q, %s %q.", s.PID, clean.Text(s.ID, backend.MaxID, false), verb, clean.Text(s.Election, backend.MaxName, false))
	switch {
	case action == "resume" && !s.Paused:
		return text + " It is not paused, so nothing changes."
	case action == "resume":
		return text + " It campaigns again at once. A process that leads now goes on leading."
	}

	switch {
	case s.Command != 0:
		stop := time.Duration(s.StopTimeout * float64(time.Second))
		text += fmt.Sprintf(" Its command (process %d) gets SIGTERM, and everything that still runs is killed after %v at most.", s.Command, stop)
	case s.Leading:
		text += " The context of its lead function ends. The function has step_down_timeout to return (30s by default)."
	default:
		text += " Its work does not run, so nothing is ended."
	}
	if s.Leading {
		text += "\nThen the lease is released, and another process can lead at once. If the release fails, it can when the lease has expired."
	}
	switch {
	case action == "pause":
		text += "\nIt does not campaign until elect resume, or until it is restarted."
	case s.Leading:
		text += "\nIt campaigns again after half a TTL."
	default:
		text += " It still campaigns, so nothing changes."
	}
	return text
}

// socketCommands are resign, pause and resume. Each goes to one process, through its socket.
func (a *app) socketCommands() (list []*cobra.Command) {
	for _, w := range []struct{ action, short, long string }{
		{"resign", "Have a process on this machine give up its leadership",
			"The command of elect run gets SIGTERM and ends, and the lease is released. Another candidate leads within\nmilliseconds, or within one reading of the store. This process campaigns again after half a TTL."},
		{"pause", "Have a process on this machine step down and stay out",
			"As elect resign, but the process does not campaign until elect resume, or until it is restarted."},
		{"resume", "Have a paused process campaign again", "The process campaigns again at once."},
	} {
		var socket string
		var pid int
		var yes, asJSON bool
		c := &cobra.Command{
			Use: w.action + " NAME", Short: w.short, Args: cobra.ExactArgs(1), Example: example(aLeader + "elect " + w.action + " billing --pid $! --yes" + endOfRun),
			Long: w.long + "\n\nThe process is an elect run, or a program that calls electionhttp.ServeLocal. Elect reaches it through\na socket that only its user can open.",
			RunE: func(c *cobra.Command, args []string) error {
				path, s, err := findProcess(c.Context(), socket, args[0], pid)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.diag, actionText(s, w.action))
				if err := a.confirm(yes, "This changes which process may lead."); err != nil {
					return err
				}
				if err := callSocket(c.Context(), path, "POST", "/elections/"+url.PathEscape(args[0])+"/"+w.action, &s); err != nil {
					return err
				}
				if asJSON {
					return a.json(s)
				}
				fmt.Fprintf(a.out, "process %d: leading: %v, paused: %v\n", s.PID, s.Leading, s.Paused)
				return nil
			},
		}
		c.Flags().StringVar(&socket, "socket", os.Getenv("ELECTION_SOCKET"), "`path` of the process's socket (default: found by the name of the election)")
		c.Flags().IntVar(&pid, "pid", 0, "the `process`, if several take part")
		c.Flags().BoolVar(&asJSON, "json", false, "write the new state as JSON")
		c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
		list = append(list, c)
	}
	return list
}
