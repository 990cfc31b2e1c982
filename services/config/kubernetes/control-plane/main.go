// The control plane of a cluster of tests in one program: its first argument says which part
// this process is. One program links what the parts share once, which halves build and size.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	// Both register metrics that the servers look for when they start.
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
}

func main() {
	part := ""
	if len(os.Args) > 1 {
		part = os.Args[1]
		os.Args = os.Args[1:]
	}
	if part == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, known := commands[part]
	if !known {
		fmt.Fprintf(os.Stderr, "%q is none of etcd, kube-apiserver, kube-controller-manager\n", part)
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
