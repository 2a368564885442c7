package main

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
	"github.com/go-election/go-election/internal/local"
)

// localClient speaks to one socket.
func localClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

// localCall makes one request and decodes the answer.
func localCall(ctx context.Context, path, method, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://elect"+url, nil)
	if err != nil {
		return err
	}
	resp, err := localClient(path).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, backend.Clean(strings.TrimSpace(string(text)), 300, false))
	}
	return json.Unmarshal(text, into)
}

// localProcess finds the one process that takes part in an election, of this user and
// on this machine. One that is there and does not answer may be the one that is meant.
func localProcess(ctx context.Context, socket, name string, pid int) (path string, s local.State, err error) {
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
		err := localCall(ctx, p, "GET", "/elections?election="+url.QueryEscape(name), &states)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return "", s, fmt.Errorf("%s is there, and does not answer; say which process is meant, by --pid: %w", p, err)
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
		return "", s, fmt.Errorf("no process of this user on this machine takes part in %q (by elect run, or electionhttp.ServeLocal)", name)
	}
	text := ""
	for _, st := range found {
		text += fmt.Sprintf("\n  --pid %d  %q, leading: %v", st.PID, backend.Clean(st.ID, backend.MaxID, false), st.Leading)
	}
	return "", s, fmt.Errorf("%d processes take part in %q; say which:%s", len(found), name, text)
}

// forecast says what a command will do to a process, and how long that takes at most.
func forecast(s local.State, what string) string {
	run := s.TTL > 0 // elect run; else a program that embeds the library, and has said nothing of timings
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	ttl := "a TTL of its own"
	if run {
		ttl = seconds(s.TTL).String()
	}
	verb := map[bool]string{true: "leads", false: "does not lead"}[s.Leading]
	text := fmt.Sprintf("Process %d, %q, %s %q.", s.PID, backend.Clean(s.ID, backend.MaxID, false), verb, backend.Clean(s.Election, backend.MaxName, false))
	if what == "resume" {
		if !s.Paused {
			return text + " It is not paused: nothing changes."
		}
		return text + fmt.Sprintf(" It campaigns again at once. Whoever leads goes on leading; if nobody does, it can be elected\nas soon as the last lease is free, after a crash about a TTL (%s), and its work starts.", ttl)
	}
	switch {
	case s.Command != 0:
		text += fmt.Sprintf(" Its command (process %d) gets SIGTERM, and what is left of it is killed after %v at most.", s.Command, seconds(s.StopTimeout))
	case s.Leading && !run:
		text += " Its lead function is told to return, and has its step_down_timeout for that (30s by default)."
	case run:
		text += " Its command does not run: nothing is ended."
	default:
		text += " Its lead function does not run: nothing is ended."
	}
	if s.Leading {
		text += fmt.Sprintf("\nThen the lease is released, and others can follow at once; if that fails, when the lease has run out (%s).", ttl)
	}
	switch {
	case what == "pause":
		text += "\nIt does not campaign until elect resume, or until it is started anew."
	case s.Leading:
		text += "\nIt campaigns again after half a TTL."
	default:
		text += " It campaigns on: nothing changes."
	}
	return text
}

// localCommands are resign, pause and resume.
func (a *app) localCommands() (list []*cobra.Command) {
	for _, w := range []struct{ what, short, long string }{
		{"resign", "Have a process on this machine give up its leadership",
			"The command of elect run gets SIGTERM and ends, the lease is released, and another candidate follows within\nmilliseconds to one reading of the store. This process campaigns on, after half a TTL."},
		{"pause", "Have a process on this machine step down and stay out",
			"As resign does; then the process does not campaign until elect resume, or until it is started anew."},
		{"resume", "Have a paused process campaign again", "It begins to campaign at once."},
	} {
		var socket string
		var pid int
		var yes, asJSON bool
		c := &cobra.Command{
			Use: w.what + " NAME", Short: w.short, Args: cobra.ExactArgs(1), Example: example(aLeader + "elect " + w.what + " billing --pid $! --yes" + endOfRun),
			Long: w.long + "\n\nIt speaks to that process through a socket that only its user can open: to elect run, or to\na program of yours that calls electionhttp.ServeLocal.",
			RunE: func(c *cobra.Command, args []string) error {
				path, s, err := localProcess(c.Context(), socket, args[0], pid)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.diag, forecast(s, w.what))
				if !yes {
					if err := a.confirm("This changes who may lead."); err != nil {
						return err
					}
				}
				if err := localCall(c.Context(), path, "POST", "/elections/"+url.PathEscape(args[0])+"/"+w.what, &s); err != nil {
					return err
				}
				if asJSON {
					return a.json(s)
				}
				fmt.Fprintf(a.out, "process %d: leading: %v, paused: %v\n", s.PID, s.Leading, s.Paused)
				return nil
			},
		}
		c.Flags().StringVar(&socket, "socket", os.Getenv("ELECTION_SOCKET"), "`path` of the process's socket (default: found by the election)")
		c.Flags().IntVar(&pid, "pid", 0, "the process, if several take part")
		c.Flags().BoolVar(&asJSON, "json", false, "the state afterwards as JSON")
		c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
		list = append(list, c)
	}
	return list
}
