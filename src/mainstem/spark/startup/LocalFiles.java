package mainstem.spark;

import java.io.IOException;
import java.nio.file.Files;
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
    private static final String MODE = "unix:mode";
    private static final int SET_USER_AND_GROUP_ID = 06000;

    /** As the command chmod: a directory keeps these two bits, so files in it get its group. */
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      java.nio.file.Path file = pathToFile(path).toPath();
      int kept = Files.isDirectory(file) ? (Integer) Files.getAttribute(file, MODE) & SET_USER_AND_GROUP_ID : 0;
      Files.setAttribute(file, MODE, permission.toShort() | kept);
    }
  }
}
