package mainstem.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, but a system call sets the permissions of a file.
 *
 * <p>Hadoop makes that call in its native library, which PySpark does not bring. Without the library, Hadoop starts the
 * command chmod for each file that it writes, and once more for the file with its checksums.
 */
public final class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new RawLocalFiles());
  }

  private static final class RawLocalFiles extends RawLocalFileSystem {
    /** From the lowest bit of a mode to the highest. */
    private static final PosixFilePermission[] BITS = {
      PosixFilePermission.OTHERS_EXECUTE, PosixFilePermission.OTHERS_WRITE, PosixFilePermission.OTHERS_READ,
      PosixFilePermission.GROUP_EXECUTE, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_READ,
      PosixFilePermission.OWNER_EXECUTE, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_READ,
    };

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      int mode = permission.toShort();
      if (mode >> BITS.length != 0) { // the sticky bit, which Java cannot set
        super.setPermission(path, permission);
        return;
      }
      Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
      for (int bit = 0; bit < BITS.length; bit++) {
        if ((mode >> bit & 1) != 0) {
          permissions.add(BITS[bit]);
        }
      }
      Files.setPosixFilePermissions(pathToFile(path).toPath(), permissions);
    }
  }
}
