//go:build tools

// Names the program that is built, so that `go mod tidy` keeps what it needs.
package tools

import _ "github.com/versity/versitygw/cmd/versitygw"
