// Package feeds embeds the feeds and exports that the demo plays.
package feeds

import "embed"

// FS holds a folder for each feed: its file, and exports of it.
//
//go:embed acme-eu acme-eu-stock
var FS embed.FS
