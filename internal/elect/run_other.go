//go:build !linux

package elect

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/config"
)

func (a *app) demoCommands() []*cobra.Command { return nil }

func guardMain([]string) int { return exitElect }

func run(context.Context, *config.Config, string, []string, runOptions) (int, error) {
	return exitElect, errors.New("elect run needs Linux, for prctl(2) and CLOCK_BOOTTIME")
}
