// Command hold does nothing but stay: it is process 1 of the node and, as the pause image, of each pod.
// It reaps what is orphaned below it and ends when it is told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, syscall.SIGCHLD)
	for {
		select {
		case <-told:
			return
		case <-orphans:
			reap()
		}
	}
}

// reap takes all that have ended: signals of several may have come as one.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
