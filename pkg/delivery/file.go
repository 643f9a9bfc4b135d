package delivery

import (
	"crypto/sha256"
	"encoding/hex"
)

// FileID names the delivery that a file is, where its publisher has no better name: the file's name with a digest of its
// content. The same file is the same delivery however often it is sent; a new content under the same name is another one,
// since files are commonly dropped under one name day by day. The name is part of it because equal content is no identity:
// two suppliers may send the same empty file.
func FileID(name string, content []byte) string {
	sum := sha256.Sum256(content)
	return name + "@" + hex.EncodeToString(sum[:16])
}
