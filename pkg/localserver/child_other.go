//go:build unix && !linux

package localserver

import (
	"os/exec"
	"syscall"
)

// isolate takes cmd out of this process's group. Only Linux can signal a child at its parent's end: elsewhere a server
// outlives a parent that was killed with -9.
func isolate(cmd *exec.Cmd, _ syscall.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}
