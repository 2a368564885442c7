package elect

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of elect and of Go", Args: cobra.NoArgs,
		Example: example("elect version"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.out, "elect %s\n", versionText())
			return err
		},
	}
}

// versionText names the versions of elect and of Go.
func versionText() string {
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return fmt.Sprintf("%s, %s %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
